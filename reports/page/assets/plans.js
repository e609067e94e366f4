// Plans as stacks of GPUs: details of the slot under the pointer or the arrow keys, and plans as files.
"use strict";

const planData = pageData("page-data");
const asking = [...(planData.instance?.workloads ?? []), ...(planData.instance?.jobs ?? [])];
const workloadOf = new Map(asking.map((one) => [one.id, one]));

for (const card of document.querySelectorAll(".plan")) {
  const run = planData.runs[Number(card.dataset.run)];
  const gpus = card.querySelector(".gpus");
  const boxes = [...gpus.querySelectorAll("i")];
  const told = describe(run);
  let at = -1;
  const point = (next) => {
    at = next;
    if (at < 0) return tip.hide();
    const box = boxes[at];
    const [title, ...others] = told[at];
    const share = Number(box.style.getPropertyValue("--s"));
    const lines = [title, `${say(share, 3)} % of the GPU`, ...others];
    tip.show(gpus, box.getBoundingClientRect(), lines, () => box.classList.remove("current"));
    box.classList.add("current");
  };
  whenPointed(gpus, {
    over: (event) => point(boxes.indexOf(event.target.closest("i"))),
    out: () => point(-1),
  });
  gpus.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!step || !boxes.length) return;
    event.preventDefault();
    point(Math.max(0, Math.min(boxes.length - 1, at + step)));
  });
  card.querySelector("[data-download=plan]").addEventListener("click", () => {
    const instance = document.querySelector("h1 bdi").textContent;
    const text = JSON.stringify(planFile(run.gpus, planData.instance ?? instance), null, 1);
    saveFile(`${instance}--${run.name}--${run.key.slice(0, 12)}.json`, text, "application/json");
  });
}

/** Describe every slot of a run's plan in lines of text, in the order of the boxes. */
function describe(run) {
  const simulated = new Map(planData.simulated.map(([id], at) => [id, run.latencies?.workloads[at]]));
  return run.gpus.flatMap(([type, ...gpulets], gpu) =>
    gpulets.flatMap(([units, cycle, start, processes, ...slots]) =>
      slots.map(([id, batch, rate]) => {
        const own = workloadOf.get(id);
        const [late, ...latency] = simulated.get(id) ?? [];
        return [
          `${id}${own ? ` · ${own.model}` : ""}`,
          `GPU ${gpu + 1} (${type}): ${units} share unit${units === 1 ? "" : "s"}${start === null ? "" : ` from ${start}`}`,
          `batch ${batch}, ${say(rate)} req/s${own?.slo_ms ? `, SLO ${say(own.slo_ms)} ms` : ""}`,
          ...(cycle === null ? [] : [`takes turns, duty cycle ${say(cycle)} ms`]),
          ...((processes ?? 1) === 1 ? [] : [`${processes} processes`]),
          ...(late === undefined ? [] : [`simulated: ${say(100 * late, 3)} % not in time, median ${say(latency[4])} ms`]),
        ];
      }),
    ),
  );
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
