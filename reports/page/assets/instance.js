// Slots of all plans of an instance with their simulated latencies, and plans as files.
"use strict";

const { instance, units, fractions, simulated, runs } = pageData("page-data");
const asking = new Map([...(instance?.workloads ?? []), ...(instance?.jobs ?? [])].map((one) => [one.id, one]));
const slos = new Map(simulated);
const quantiles = fractions.map((fraction) => `p${Number((100 * fraction).toPrecision(3))}_ms`);

const SLOT = ["scheduler", "workload", "model", "gpu", "gpu_type", "share_units", "share_pct", "batch", "rate_rps", "duty_cycle_ms", "start", "processes", "slo_ms"];
const names = [...SLOT, "late_pct", ...quantiles, "served_pct", "longest_ms"];
const SHOWN = ["scheduler", "workload", "model", "gpu", "share_pct", "batch", "rate_rps", "slo_ms", "late_pct", "p50_ms", "p90_ms", "p99_ms", "longest_ms"];

/** Return the slots of a run, and its applications, which have latencies but no slot. */
function slotsOf(run) {
  const latencies = new Map(simulated.map(([id], at) => [id, run.latencies?.[at]]));
  const percent = (fraction) => (fraction === undefined ? null : 100 * fraction);
  const slot = (id, ...place) => {
    const [late, ...times] = latencies.get(id) ?? [];
    const longest = times.pop();
    const served = times.pop();
    const told = times.length ? times : quantiles.map(() => null);
    const slo = asking.get(id)?.slo_ms ?? slos.get(id) ?? null;
    return [run.name, id, asking.get(id)?.model ?? "-", ...place, slo, percent(late), ...told, percent(served), longest ?? null];
  };
  const slots = (run.gpus ?? []).flatMap(([type, ...gpulets], gpu) =>
    gpulets.flatMap(([share, cycle, start, processes, ...own]) =>
      own.map(([id, batch, rate]) =>
        slot(id, gpu + 1, type, share, units[type] ? (100 * share) / units[type] : null, batch, rate, cycle, start, processes),
      ),
    ),
  );
  const placed = new Set(slots.map(([, id]) => id));
  const others = simulated.filter(([id]) => run.latencies && !placed.has(id));
  return [...slots, ...others.map(([id]) => slot(id, ...SLOT.slice(3, -1).map(() => null)))];
}

const table = document.getElementById("slots");
if (table) {
  const slots = runs.flatMap(slotsOf);
  const columns = Object.fromEntries(names.map((name, at) => [name, slots.map((slot) => slot[at])]));
  fillTable(table, document.getElementById("slot-filters"), columns, SHOWN, {
    most: 24,
    cell: (name, value) => {
      const text = make("bdi", {}, typeof value === "number" || value === null ? say(value) : value);
      return name === "scheduler" ? make("th", { scope: "row" }, text) : make("td", { class: typeof value === "string" ? null : "number" }, text);
    },
  });
}

for (const button of document.querySelectorAll("[data-plan]")) {
  const run = runs[Number(button.dataset.plan)];
  button.addEventListener("click", () => {
    const name = document.querySelector("h1 bdi").textContent;
    const text = JSON.stringify(planFile(run.gpus, instance ?? name), null, 1);
    saveFile(`${name}--${run.name}--${run.key.slice(0, 12)}.json`, text, "application/json");
  });
}

/** Return the plan file of compact GPUs: the counterpart of reports.page.plan_columns.compact_plan. */
function planFile(gpus, instance) {
  const gpulet = ([share_units, duty_cycle_ms, start, processes, ...slots]) => ({
    share_units,
    duty_cycle_ms,
    ...(start === null ? {} : { start }),
    ...(processes === null ? {} : { processes }),
    slots: slots.map(([workload, batch, rate_rps]) => ({ workload, batch, rate_rps })),
  });
  return { version: 1, instance, gpus: gpus.map(([type, ...gpulets]) => ({ type, gpulets: gpulets.map(gpulet) })) };
}
