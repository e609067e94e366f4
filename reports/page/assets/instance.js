// The charts of an instance: plans and bounds over time, distributions of latencies, predicted against measured.
"use strict";

const instanceData = pageData("page-data");
const instanceLooks = pageData("looks");
const instanceVariants = variants([...instanceData.runs, ...instanceData.measured]);
const BENT_FROM_PCT = 200; // a larger range of distances gets a bent axis
const LEAST_S = [1e-5, 1e-3]; // limits of the start of the time axis

/** Return name, colours, marker and variant of an entrant's series. */
const looksOf = ({ name, scheduler }) => ({ name, look: instanceLooks[scheduler], variant: instanceVariants.get(name) });

const progressChart = document.getElementById("progress-chart");
if (progressChart) {
  const series = instanceData.runs.flatMap((run) => {
    const shared = { ...looksOf(run), shape: "step" };
    return [
      { ...shared, kind: "plan", points: run.progress.plans },
      { ...shared, kind: "certified bound", points: run.progress.bounds, ownDashes: "1.5 3", marks: (_, i) => i === 0 },
    ];
  });
  const drawn = series.filter((one) => one.points.length).map((one) => ({ ...one, until: instanceData.time_limit_s }));
  const [times, distances] = [0, 1].map((axis) => drawn.flatMap((one) => one.points.map((point) => point[axis])));
  const [low, high] = [Math.min(0, ...distances), Math.max(0, ...distances)];
  const bent = high - low > BENT_FROM_PCT;
  const pad = Math.max(1, 0.05 * (high - low));
  const begin = Math.max(LEAST_S[0], Math.min(LEAST_S[1], ...times));
  drawChart(progressChart, {
    series: drawn,
    x: { title: "Decision time (s)", log: true, domain: [begin, Math.max(instanceData.time_limit_s, ...times)] },
    y: { title: "Worse than the reference (%)", bent, domain: [low - pad, high + pad] },
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
      series: simulated.map((run) => ({
        ...looksOf(run),
        dashes: instanceLooks[run.scheduler].dashes,
        points: instanceData.ratios.map((ratio, i) => [ratio, 100 * run.latencies.in_time[i]]),
        marks: (_, i) => i % 12 === 6,
      })),
      x: { title: "Latency (multiple of the SLO)", log: true, domain: [0.02, 2] },
      y: percent,
      rules: [{ x: 1, title: "SLO" }],
    });
  const drawOne = (at) => {
    const slo = instanceData.simulated[at][1];
    drawChart(latencyChart, {
      series: simulated.map((run) => {
        const [late, ...told] = run.latencies.workloads[at];
        const fractions = instanceData.fractions.length;
        // The end of the curve comes last: the fraction served, and the longest latency.
        const [served, longest] = told.slice(fractions);
        const latency = told.slice(0, fractions).map((ms, i) => [ms, instanceData.fractions[i]]);
        return {
          ...looksOf(run),
          dashes: instanceLooks[run.scheduler].dashes,
          points: [...latency, [longest ?? null, served]]
            .filter(([ms]) => ms !== null)
            .map(([ms, fraction]) => [ms, 100 * fraction, `${say(100 * late, 3)} % not in time`]),
        };
      }),
      x: { title: "Latency (ms)", log: true },
      y: percent,
      rules: [{ x: slo, title: `SLO ${say(slo)} ms` }],
    });
  };
  select.addEventListener("change", draw);
  addEventListener("pageshow", draw); // the browser has restored earlier choices by then
  draw();
}

const measuredChart = document.getElementById("measured-chart");
if (measuredChart) {
  const found = instanceData.measured.flatMap(({ points }) => points.flatMap((point) => point.slice(0, 2)));
  const domain = [Math.min(...found) / 1.3, Math.max(...found) * 1.3];
  drawChart(measuredChart, {
    series: instanceData.measured.map((replay) => ({ ...looksOf(replay), points: replay.points, shape: "none" })),
    x: { title: "Predicted P99 latency (ms)", log: true, domain },
    y: { title: "Measured P99 latency (ms)", log: true, domain },
    rules: [{ diagonal: true }],
  });
}
