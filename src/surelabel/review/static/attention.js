// Where the nets looked: a shade over the image, dark where they did not.

import { make, notify } from "./dom.js";

export class Attention {
  #frame;
  #button;
  #isOn = false;
  #wanted = null;

  constructor(frame, button) {
    this.#frame = frame;
    this.#button = button;
  }

  toggle(id) {
    this.#isOn = !this.#isOn;
    this.#button.setAttribute("aria-pressed", this.#isOn);
    this.show(id);
  }

  /** Put the shade over the image `id`, which the frame shows, or take it away. */
  async show(id) {
    this.#wanted = id;
    this.#frame.querySelector(".shade")?.remove();
    if (!this.#isOn || id === null) return;
    const shade = make("img", { alt: "", className: "shade", src: `/attention/${id}` });
    try {
      await shade.decode();
    } catch {
      if (this.#wanted === id) notify("It cannot be shown where the nets looked in this image.");
      return;
    }
    if (!this.#isOn || this.#wanted !== id) return;
    this.#frame.querySelector(".shade")?.remove();
    this.#frame.append(shade);
  }
}
