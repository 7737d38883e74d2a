// Shows one frame of each history at a time. Without this script all frames are there, one below the other.
document.addEventListener("DOMContentLoaded", () => {
  for (const tale of document.querySelectorAll(".tale")) {
    const frames = [...tale.querySelectorAll(".frame")];
    const bar = document.createElement("p");
    bar.className = "bar";
    const [first, back, next, last] = ["« first", "‹ back", "next ›", "last »"].map((label) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      bar.append(button);
      return button;
    });
    let at = 0;
    const show = (number) => {
      at = Math.max(0, Math.min(frames.length - 1, number));
      frames.forEach((frame, index) => (frame.hidden = index !== at));
      first.disabled = back.disabled = at === 0;
      next.disabled = last.disabled = at === frames.length - 1;
    };
    first.onclick = () => show(0);
    back.onclick = () => show(at - 1);
    next.onclick = () => show(at + 1);
    last.onclick = () => show(frames.length - 1);
    tale.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft") show(at - 1);
      else if (event.key === "ArrowRight") show(at + 1);
    });
    tale.prepend(bar);
    show(0);
  }
});
