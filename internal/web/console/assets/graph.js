// Moves the graph through the time of the records.
"use strict";
{
  const slider = document.querySelector("#slider");
  if (slider) {
    const until = document.querySelector("#until");
    const text = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16); // in UTC, as the field is
    slider.hidden = false;
    slider.addEventListener("input", () => { until.value = text(slider.value); });
    slider.addEventListener("change", () => { slider.form.requestSubmit(); });
  }
}
