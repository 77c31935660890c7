"use strict";
// Zoom: the axis gets longer, nothing else does. A click keeps an operation's line in sight.
for (const bar of document.querySelectorAll(".zoom")) {
  const inner = bar.nextElementSibling.firstElementChild;
  const choose = (button) => {
    for (const other of bar.children) other.setAttribute("aria-pressed", other === button);
    const box = bar.nextElementSibling;
    const middle = (box.scrollLeft + box.clientWidth / 2) / box.scrollWidth;
    inner.style.width = `${100 * Number(button.dataset.zoom)}%`;
    box.scrollLeft = middle * box.scrollWidth - box.clientWidth / 2;
  };
  for (const button of bar.children) button.addEventListener("click", () => choose(button));
  bar.firstElementChild.setAttribute("aria-pressed", true);
}
const chosen = document.getElementById("chosen");
document.addEventListener("click", (event) => {
  // Its own, or that of the group that it is a part of.
  const near = [event.target, event.target.parentElement];
  const title = near.map((at) => at && at.querySelector(":scope > title")).find((found) => found);
  chosen.hidden = !title;
  if (title) chosen.textContent = title.textContent;
});
