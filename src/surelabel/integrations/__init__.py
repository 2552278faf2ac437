"""surelabel inside other libraries: scikit-learn, ONNX, trackers of experiments."""
