// Overview, use of devices and links, other plans, and measured times.
const kPipelineNames = {gpipe: 'GPipe', one_f_one_b: '1F1B', interleaved: 'interleaved', zb_v: 'ZB-V',
                        zero_bubble: 'zero bubble'};

// The parts of the time above the lower bound: those that a change of the program would remove, and the rest.
function gapText(bound) {
  const step = report.predicted.step_seconds;
  const gap = step - bound;
  if (gap < 1e-3 * step) return 'The plan reaches the bound.';
  const parts = data.what_if.filter((one) => one.part && step - one.step_seconds > 5e-4 * step)
    .map((one) => [one.part, Math.min(gap, step - one.step_seconds)]);
  const rest = gap - parts.reduce((all, part) => all + part[1], 0);
  if (rest > 5e-4 * step) parts.push(['the order of the passes, sums, and data', rest]);
  return `Above the bound: ${parts.map(([what, time]) => `${seconds(time)} for ${what}`).join(', ')}. The bound holds ` +
    'for all cuts of the listed kinds, and includes the idle time that no order of the passes avoids.';
}
function showOverview() {
  const settings = report.settings;
  const predicted = report.predicted;
  const cluster = report.cluster;
  find('model').textContent = report.model;
  find('subtitle').textContent = `Plan ${report.plan} for ${cluster.name}: ${whole(cluster.devices)} ` +
    `${cluster.devices === 1 ? 'device' : 'devices'}` + (cluster.nodes ? ` on ${cluster.nodes} nodes` : '') +
    `, ${cluster.isa}` + (sharedCores() ? `; ${sharedCores()}` : '');
  figure('Step', seconds(predicted.step_seconds), predicted.step_seconds, `${whole(settings.batch)} samples`);
  const rate = predicted.images_per_second;
  figure('Samples a second', rate < 10 ? digits(rate) : whole(rate), predicted.images_per_second);
  figure('Stages', String(settings.stages), settings.stages,
         `${counted(settings.replicas, 'replica')}, ${kPipelineNames[settings.pipeline] || settings.pipeline}`);
  figure('Micro-batches', String(settings.micro_batches), settings.micro_batches);
  figure('Idle', percent(predicted.bubble + predicted.imbalance), predicted.bubble + predicted.imbalance,
         `waiting ${percent(predicted.bubble)}, imbalance ${percent(predicted.imbalance)}` +
         (sharedCores() ? `; ${sharedCores()}` : ''));
  figure('Memory of a run', bytes(report.run_memory.sum), report.run_memory.sum, `of ${bytes(cluster.memory)}`);
  if (predicted.epoch_seconds) figure('Epoch', seconds(predicted.epoch_seconds), predicted.epoch_seconds);
  const made = report.certificate;
  if (made) {
    const bound = made.lower_bound_ms / 1e3;
    figure('Above the bound', percent(made.gap), made.gap);
    find('bound').append(element('div', {class: 'bound'},
      element('span', {}, 'lower bound'), meter(bound / predicted.step_seconds, 'backward'), element('span', {}, seconds(bound)),
      element('span', {}, 'this plan'), meter(1, 'forward'), element('span', {}, seconds(predicted.step_seconds))),
      element('p', {class: 'note'}, gapText(bound)));
  }
  for (const [choice, reason] of [...data.texts, ...report.why.map((why) => [why.choice, why.reason])]) {
    const link = choice.startsWith('limit') && data.what_if.length > 0
      ? element('span', {}, '. ', element('a', {href: '#what-if'}, 'What a faster part would gain')) : null;
    find('reasons').append(element('dt', {}, choice), element('dd', {}, reason, ...(link ? [link] : [])));
  }
  find('footer').textContent = `Made by xrun from plan ${report.plan}. Mathematics ` +
    `${(report.digests.math || '').slice(0, 8)}, kernels ${report.digests.facts}.`;
}

// The time in which at least one interval of a device and stream is running.
function busyTimes() {
  const ends = schedule.devices.map(() => [0, 0]);
  const sums = schedule.devices.map(() => [0, 0]);
  const order = [...Array(count).keys()].sort((a, b) => columns.begin[a] - columns.begin[b]);
  for (const at of order) {
    const row = columns.row[at];
    const lane = columns.comm[at];
    const begin = Math.max(columns.begin[at], ends[row][lane]);
    sums[row][lane] += Math.max(0, columns.end[at] - begin);
    ends[row][lane] = Math.max(ends[row][lane], columns.end[at]);
  }
  return sums;
}

function showLinks() {
  const body = find('links-body');
  const step = report.predicted.step_seconds * 1e9;
  const busy = busyTimes();
  body.append(table(['device', 'computes', '', 'exchanges', ''], schedule.devices.map((device, row) => {
    const [compute, comm] = busy[row].map((sum) => sum / step);
    const more = device.alike.length - 1;
    return [device.name + (more > 0 ? ` and ${more} alike` : ''), meter(compute, 'forward'), percent(compute),
            meter(comm, 'comm'), percent(comm)];
  }), [2, 4]));
  if (report.comm.length > 0) {
    body.append(element('h3', {}, 'Exchanges of a step'), table(['operation', 'number', 'bytes', 'time'],
      report.comm.map((one) => [one.what, whole(one.count), bytes(one.bytes), seconds(one.seconds)]), [1, 2, 3]));
  }
  const network = report.network;
  if (!network) return;
  const rate = report.cluster.network.bytes_per_second;
  const share = (sent) => (rate > 0 ? sent / rate / report.predicted.step_seconds : 0);
  const busiest = network.links.map((link, node) => [Math.max(link.sent_bytes, link.received_bytes), node])
    .sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 16).map(([, node]) => node);
  body.append(element('h3', {}, `Links of the ${network.links.length} nodes` + (network.links.length > 16 ? ': the busiest 16' : '')),
    table(['node', 'sends', '', 'of the link', 'receives', '', 'of the link'], busiest.map((node) => {
      const link = network.links[node];
      return [String(node), bytes(link.sent_bytes), meter(share(link.sent_bytes), 'comm'), percent(share(link.sent_bytes)),
              bytes(link.received_bytes), meter(share(link.received_bytes), 'comm'), percent(share(link.received_bytes))];
    }), [1, 3, 4, 6]),
    element('h3', {}, 'Bytes on the busiest link'), table(['use', 'bytes', 'time'],
      network.uses.map((use) => [use.what, bytes(use.busiest_bytes), seconds(use.seconds)]), [1, 2]));
}

function showWhatIf() {
  const own = report.predicted.step_seconds;
  if (data.what_if.length === 0) return;
  find('what-if').hidden = false;
  document.querySelector('nav a[href="#what-if"]').hidden = false;
  const sorted = [...data.what_if].sort((a, b) => a.step_seconds - b.step_seconds);
  find('what-if-body').append(table(['change', 'step', '', 'gain'], sorted.map((one) =>
    [one.change, meter(one.step_seconds / own, 'backward'), seconds(one.step_seconds),
     percent(1 - one.step_seconds / own)]), [2, 3]));
}

// The granularity of head passes as a hint, if it is a choice of the plan.
function granularityText() {
  const found = report.why.map((why) => why.choice.match(/^granularity (\S+) = (\S+)$/)).find((match) => match);
  return found ? `, shard ${found[1]} { granularity = ${found[2]} }` : '';
}

function plansTable(list, caption) {
  const own = report.predicted.step_seconds;
  const most = Math.max(own, ...list.map((one) => one.step_seconds));
  const settings = report.settings;
  const memory = Math.max(...report.memory.filter((device) => device.device !== 'host').map((device) => device.arena));
  const row = (settingsText, time, size, note, colour) => [settingsText, meter(time / most, colour), seconds(time), bytes(size), note];
  const chosen = row(`this plan: stages = ${settings.stages}, replicas = ${settings.replicas}, micro_batches = ` +
                     `${settings.micro_batches}, pipeline = ${settings.pipeline}${granularityText()}`, own, memory,
                     'the fastest that fits', 'forward');
  chosen.chosen = true;
  return table(['settings', 'step', '', 'largest device', 'why it lost'],
    [chosen, ...list.map((one) => row(one.settings, one.step_seconds, one.memory, one.note, 'other'))], [2, 3], caption);
}

// The settings that were not searched, because the file sets them.
function notTried() {
  const rows = [];
  for (const {choice, reason} of report.why) {
    const [name, value] = choice.split(' = ');
    if (value && /^(stages|replicas|micro_batches|pipeline|granularity .*)$/.test(name) && reason.includes('asked for')) {
      rows.push([`other values of ${name}`, `not tried: the file sets ${choice}`]);
    }
  }
  return rows;
}

function showOthers() {
  const body = find('others-body');
  const fixed = notTried();
  if (fixed.length > 0) body.append(pairs(fixed));
  if (report.alternatives.length === 0 && report.other_kinds.length === 0) {
    body.append(element('p', {class: 'note'}, 'No other plan was compared with this one.'));
    return;
  }
  if (report.alternatives.length > 0) {
    body.append(element('h3', {}, 'Next best plans'), plansTable(report.alternatives, ''));
  }
  if (report.other_kinds.length > 0) {
    body.append(element('h3', {}, 'Best plans of other kinds'), plansTable(report.other_kinds, ''));
  }
  if (report.head_choices) {
    body.append(element('h3', {}, `Other choices for ${report.head_choices.head}; they change training`),
      table(['choice', 'step', 'memory'], report.head_choices.choices.map((one) =>
        [one.choice, seconds(one.step_seconds), bytes(one.memory)]), [1, 2]));
  }
}

function showMeasured() {
  if (!data.measured) return;
  find('measured').hidden = false;
  document.querySelector('nav a[href="#measured"]').hidden = false;
  const sums = new Map();
  const far = [];
  data.measured.times.forEach((run, at) => {
    if (!run) return;
    const kind = schedule.kinds[columns.kind[at]];
    const planned = (columns.end[at] - columns.begin[at]) / 1e9;
    const took = (run[1] - run[0]) / 1e9;
    const sum = sums.get(kind) || [0, 0, 0];
    sums.set(kind, [sum[0] + 1, sum[1] + planned, sum[2] + took]);
    far.push([at, planned, took]);
  });
  const ratio = (took, planned) => (planned > 0 ? (took / planned).toFixed(2) : '–');
  const rows = [...sums].sort((a, b) => b[1][2] - a[1][2]).map(([kind, [number, planned, took]]) =>
    [kind, whole(number), seconds(planned), seconds(took), ratio(took, planned)]);
  const step = ['whole step', '', seconds(report.predicted.step_seconds), seconds(data.measured.step_seconds),
                ratio(data.measured.step_seconds, report.predicted.step_seconds)];
  step.chosen = true;
  far.sort((a, b) => Math.abs(b[2] - b[1]) - Math.abs(a[2] - a[1]));
  find('measured-body').append(
    element('p', {class: 'note'}, `Medians of ${data.measured.steps} steps.`),
    element('div', {class: 'two'},
      table(['instructions', 'number', 'predicted', 'measured', 'ratio'], [step, ...rows], [1, 2, 3, 4]),
      table(['largest differences', 'device', 'predicted', 'measured', 'ratio'], far.slice(0, 10).map(([at, planned, took]) =>
        [schedule.labels[columns.label[at]], String(schedule.devices[columns.row[at]].device), seconds(planned),
         seconds(took), ratio(took, planned)]), [1, 2, 3, 4])));
}
