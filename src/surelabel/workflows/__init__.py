"""What a user asks for, from end to end: label, resume, add, predict, certify, audit, forecast."""
