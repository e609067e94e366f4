// The charts of an instance: plans and bounds over time, distributions of latencies, predicted against measured.
"use strict";

const instanceData = pageData("page-data");
const instanceLooks = pageData("looks");
const SHOWN_PCT = [-35, 65]; // distances beyond these are cut off

const progressChart = document.getElementById("progress-chart");
if (progressChart) {
  const end = instanceData.time_limit_s;
  const until = (points) => [...points, [Math.max(end, points.at(-1)[0]), points.at(-1)[1]]];
  const series = instanceData.runs.flatMap(({ name, scheduler, progress }) => {
    const look = instanceLooks[scheduler];
    return [
      { name, look, kind: "plan", points: progress.plans, dashes: "" },
      { name, look, kind: "certified bound", points: progress.bounds, dashes: "2 4" },
    ]
      .filter((one) => one.points.length)
      .map((one) => ({ ...one, points: until(one.points), shape: "step", marks: (_, i) => i < one.points.length && (i === 0 || one.kind === "plan") }));
  });
  const all = series.flatMap((one) => one.points.map((point) => point[1]));
  const [low, high] = [Math.min(0, ...all), Math.max(0, ...all)];
  const pad = Math.max(1, 0.05 * (high - low));
  drawChart(progressChart, {
    series,
    x: { title: "Decision time (s)", log: true, domain: [1e-3, Math.max(end, ...series.flatMap((one) => one.points.map((p) => p[0])))] },
    y: { title: "Worse than the reference (%)", domain: [Math.max(SHOWN_PCT[0], low - pad), Math.min(SHOWN_PCT[1], high + pad)] },
    rules: [{ y: 0 }],
  });
}

const latencyChart = document.getElementById("latency-chart");
if (latencyChart) {
  const simulated = instanceData.runs.filter((run) => run.latencies);
  const select = document.getElementById("latency-workload");
  select.append(...instanceData.simulated.map(([id], at) => make("option", { value: at }, id)));
  const percent = { title: "Requests served (%)", domain: [0, 100] };
  const draw = () => (select.value ? drawOne(Number(select.value)) : drawAll());
  const drawAll = () =>
    drawChart(latencyChart, {
      series: simulated.map(({ name, scheduler, latencies }) => ({
        name,
        look: instanceLooks[scheduler],
        dashes: instanceLooks[scheduler].dashes,
        points: instanceData.ratios.map((ratio, i) => [ratio, 100 * latencies.in_time[i]]),
        marks: (_, i) => i % 12 === 6,
      })),
      x: { title: "Latency (multiple of the SLO)", log: true, domain: [0.02, 2] },
      y: percent,
      rules: [{ x: 1, title: "SLO" }],
    });
  const drawOne = (at) => {
    const slo = instanceData.simulated[at][1];
    drawChart(latencyChart, {
      series: simulated.map(({ name, scheduler, latencies }) => {
        const [late, ...latency] = latencies.workloads[at];
        return {
          name,
          look: instanceLooks[scheduler],
          dashes: instanceLooks[scheduler].dashes,
          points: latency
            .map((ms, i) => [ms, 100 * instanceData.fractions[i], `${say(100 * late, 3)} % not in time`])
            .filter(([ms]) => ms !== null),
        };
      }),
      x: { title: "Latency (ms)", log: true },
      y: percent,
      rules: [{ x: slo, title: `SLO ${say(slo)} ms` }],
    });
  };
  select.addEventListener("change", draw);
  draw();
}

const measuredChart = document.getElementById("measured-chart");
if (measuredChart) {
  const found = instanceData.measured.flatMap(({ points }) => points.flatMap((point) => point.slice(0, 2)));
  const domain = [Math.min(...found) / 1.3, Math.max(...found) * 1.3];
  drawChart(measuredChart, {
    series: instanceData.measured.map(({ name, scheduler, points }) => ({ name, look: instanceLooks[scheduler], points, shape: "none" })),
    x: { title: "Predicted P99 latency (ms)", log: true, domain },
    y: { title: "Measured P99 latency (ms)", log: true, domain },
    rules: [{ diagonal: true }],
  });
}
