// Chart of results against the size of instances.
"use strict";

const scalingData = pageData("scaling-data");
if (scalingData) {
  const looks = pageData("looks");
  const numbers = variants(Object.values(scalingData.suites).flat());
  const [suite, metric] = ["scaling-suite", "scaling-metric"].map((id) => document.getElementById(id));
  const draw = () => {
    const series = scalingData.suites[suite.value].map((one) => {
      const known = one.points.filter((point) => point[metric.value] !== null);
      const look = looks[one.scheduler];
      return {
        name: one.name,
        look,
        variant: numbers.get(one.name),
        dashes: look.dashes,
        points: known.map((p) => [p.workloads, p[metric.value][1], `${p.runs} run${p.runs === 1 ? "" : "s"}`]),
        bars: known.map((p) => [p.workloads, p[metric.value][0], p[metric.value][2]]),
      };
    });
    const time = metric.value === "decision_s";
    drawChart(document.getElementById("scaling-chart"), {
      series: series.filter((one) => one.points.length),
      x: { title: "Workloads", log: true },
      y: { title: metric.selectedOptions[0].textContent, log: time },
    });
  };
  for (const input of [suite, metric]) input.addEventListener("change", draw);
  addEventListener("pageshow", draw); // the browser has restored earlier choices by then
  draw();
}
