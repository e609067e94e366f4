// Chart of tested plans: GPUs over the workloads that keep their attainment.
"use strict";

const holdData = pageData("hold-data");
if (holdData) {
  const looks = pageData("looks");
  const select = document.getElementById("hold-instance");
  const draw = () => drawChart(document.getElementById("hold-chart"), {
    series: holdData[select.value].map((one) => ({ ...one, look: looks[one.name], dashes: looks[one.name].dashes, shape: "none" })),
    x: { title: "Workloads that keep their attainment (%)", domain: [-2, 102] },
    y: { title: "GPUs", domain: [0, 1.1 * Math.max(...holdData[select.value].flatMap((one) => one.points.map((point) => point[1])))] },
  });
  select.addEventListener("change", draw);
  addEventListener("pageshow", draw);
  draw();
}
