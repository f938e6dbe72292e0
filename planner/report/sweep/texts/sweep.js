// The sections of the page of a sweep.
const kSeries = ['forward', 'head', 'backward', 'comm', 'update', 'other'];
const kPartColours = {
  backbone: 'forward', head: 'head', 'gathers and scatters of heads': 'comm', 'sends between stages': 'again',
  'exchanges of gradients': 'limit', copies: 'accent', 'compressed gradients': 'backward', 'sums and updates': 'update',
  'waiting for other devices': 'line', 'waiting for data': 'other',
};
const shortName = (key) => key.slice(key.lastIndexOf('.') + 1);
const valuesOf = (point) => data.keys.map((key) => point.values[key]);
const nameOf = (point) => data.keys.map((key) => `${shortName(key)} = ${point.values[key]}`).join(', ');
const planned = data.points.filter((point) => point.plan);
const fastest = data.fastest === null ? null : data.points[data.fastest];
const rateText = (rate) => (rate > 0 && rate < 10 ? digits(rate) : whole(rate));

function showHead() {
  const machines = [...new Set(planned.map((point) => point.plan.machine))];
  find('model').textContent = data.model;
  find('subtitle').textContent = (machines.length === 1 ? `${machines[0]}; ` : '') + 'modelled, no devices used';
  if (fastest) {
    const plan = fastest.plan;
    const where = data.keys.length > 0 ? nameOf(fastest) : plan.machine;
    figure('Samples a second', rateText(plan.samples_per_second), plan.samples_per_second, where);
    figure('Step', seconds(plan.step_seconds), plan.step_seconds, where);
    figure('Memory of a device', bytes(plan.memory), plan.memory,
           `${plan.tightest_memory.what}: ${percent(plan.tightest_memory.used / plan.tightest_memory.limit)} used`);
    figure('Idle', percent(plan.idle), plan.idle);
    if (plan.epoch_seconds) figure('Epoch', seconds(plan.epoch_seconds), plan.epoch_seconds, counted(plan.samples, 'sample'));
    if (planned.length > 1) figure('Speed-up', `${digits(plan.speed_up)} x`, plan.speed_up, `over ${nameOf(planned[0])}`);
  }
  const rows = [['costs', data.costs], ...data.not_run.map((text) => ['not yet', text])];
  if (data.fit) rows.unshift(['fit', data.fit.text]);
  for (const [name, text] of rows) find('reasons').append(element('dt', {}, name), element('dd', {}, text));
  find('footer').textContent = 'Made by xrun simulate. All times are those of the cost model.';
}

// A number in a value such as "8", "64k" or "16GiB"; NaN for another value.
const numberOf = (value) => (/^[0-9][0-9_]*(\.[0-9]+)?$/.test(value) ? Number(value.replace(/_/g, '')) : NaN);

// The place of each value of the first key, from 0 to 1: by a logarithm if all are numbers that differ much.
function places() {
  const values = [...new Set(data.points.map((point) => valuesOf(point)[0]))];
  const numbers = values.map(numberOf);
  if (numbers.some(Number.isNaN) || values.length < 2) {
    return new Map(values.map((value, at) => [value, (at + 0.5) / values.length]));
  }
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const place = low > 0 && high / low >= 8 ? (one) => Math.log(one / low) / Math.log(high / low)
    : (one) => (one - low) / (high - low);
  return new Map(values.map((value, at) => [value, place(numbers[at])]));
}

function seriesOf() {
  const series = new Map();
  for (const point of data.points) {
    const name = data.keys.slice(1).map((key) => `${shortName(key)} = ${point.values[key]}`).join(', ');
    if (!series.has(name)) series.set(name, []);
    series.get(name).push(point);
  }
  return [...series];
}

// The largest of 1, 2 and 5 times a power of ten for which an axis has at least three steps.
function stepOf(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return most / power >= 6 ? 2 * power : most / power >= 3 ? power : most / power >= 1.5 ? power / 2 : power / 5;
}

function chart(title, valueOf, textOf, step) {
  const wide = 640;
  const high = 320;
  const at = places();
  const most = Math.max(...planned.map(valueOf)) || 1;
  const placeOf = (share) => 100 + share * (wide - 150);
  const x = (point) => placeOf(at.get(valuesOf(point)[0]));
  const y = (value) => high - 42 - value / most * (high - 70);
  const made = drawing('svg', {viewBox: `0 0 ${wide} ${high}`, role: 'group', 'aria-label': `${title} by ${data.keys[0]}`});
  made.append(drawing('text', {x: 8, y: 14, class: 'name'}, title));
  for (let value = 0; value <= most * 1.0001; value += step(most)) {
    made.append(drawing('path', {class: 'axis', d: `M80 ${y(value)}H${wide - 16}`}),
                drawing('text', {x: 74, y: y(value) + 4, 'text-anchor': 'end'}, textOf(value)));
  }
  let free = -Infinity;
  for (const [value, place] of [...at].sort((a, b) => a[1] - b[1])) {
    const middle = placeOf(place);
    const half = 3.3 * value.length;
    if (middle - half < free) continue;
    free = middle + half + 6;
    made.append(drawing('text', {x: middle, y: high - 22, 'text-anchor': 'middle'}, value));
  }
  made.append(drawing('text', {x: wide / 2, y: high - 5, 'text-anchor': 'middle'}, data.keys[0]));
  seriesOf().forEach(([name, points], number) => {
    const colour = `var(--${kSeries[number % kSeries.length]})`;
    const drawn = points.filter((point) => point.plan).sort((a, b) => x(a) - x(b));
    if (!data.fit && drawn.length > 1) {
      made.append(drawing('path', {d: 'M' + drawn.map((point) => `${x(point)} ${y(valueOf(point))}`).join('L'),
        style: `stroke:${colour};stroke-width:2;fill:none` + (number >= kSeries.length ? ';stroke-dasharray:5 3' : '')}));
    }
    for (const point of drawn) {
      const text = `${nameOf(point)}: ${textOf(valueOf(point))}`;
      made.append(drawing('circle', {cx: x(point), cy: y(valueOf(point)), r: point === fastest ? 6 : 4, fill: colour,
        tabindex: 0, role: 'img', 'aria-label': text}, drawing('title', {}, text)));
    }
    for (const point of points.filter((one) => !one.plan)) {
      const text = `${nameOf(point)}: no plan, ${point.error.code}`;
      made.append(drawing('path', {class: 'limit', tabindex: 0, role: 'img', 'aria-label': text,
        d: `M${x(point) - 4} ${y(0) - 4}l8 8m0 -8l-8 8`}, drawing('title', {}, text)));
    }
  });
  return made;
}

function showCharts() {
  if (data.keys.length === 0 || data.points.length < 2 || planned.length === 0) return;
  find('charts').hidden = false;
  document.querySelector('nav a[href="#charts"]').hidden = false;
  const series = seriesOf();
  if (series.length > 1) {
    series.forEach(([name], number) => find('legend').append(element('li', {},
      element('span', {class: 'swatch', style: `background:var(--${kSeries[number % kSeries.length]})`}), name)));
  }
  const stepOfBytes = (most) => {
    const unit = 1024 ** Math.floor(Math.log(Math.max(most, 1)) / Math.log(1024));
    return unit * stepOf(most / unit);
  };
  find('charts-body').append(
    element('div', {}, chart('samples a second', (point) => point.plan.samples_per_second, rateText, stepOf)),
    element('div', {}, chart('memory of the largest device', (point) => point.plan.memory, bytes, stepOfBytes)));
}

function showPoints() {
  const names = data.keys.map(shortName);
  const rows = data.points.map((point) => {
    const plan = point.plan;
    const row = plan ? [...valuesOf(point), bytes(plan.memory), seconds(plan.step_seconds), rateText(plan.samples_per_second),
                        `${plan.speed_up.toFixed(2)} x`, percent(plan.idle), plan.limit, plan.settings_text, plan.machine]
      : [...valuesOf(point), '–', '–', '–', '–', '–', 'no plan', `${point.error.code}: ${point.error.message}`, ''];
    row.chosen = point === fastest && data.points.length > 1;
    return row;
  });
  const from = names.length;
  find('points-body').append(table([...names, 'memory/device', 'step', 'samples/s', 'speed-up', 'idle', 'limit', 'plan',
    'machine'], rows, [from, from + 1, from + 2, from + 3, from + 4],
    data.points.length > 1 ? 'The fastest row is bold.' : ''));
}

function showSteps() {
  const longest = Math.max(...planned.map((point) => point.plan.step_seconds));
  const parts = [...new Set(planned.flatMap((point) => point.plan.step_parts.map((part) => part.name)))];
  for (const name of parts) {
    find('parts-legend').append(element('li', {},
      element('span', {class: 'swatch', style: `background:var(--${kPartColours[name]})`}), name));
  }
  for (const point of planned) {
    const plan = point.plan;
    const bar = element('div', {class: 'stack', 'aria-hidden': 'true'});
    for (const part of plan.step_parts) {
      const width = (100 * part.seconds / longest).toFixed(3);
      bar.append(element('span', {style: `width:${width}%;background:var(--${kPartColours[part.name]})`,
        title: `${part.name}: ${seconds(part.seconds)}`}));
    }
    const rows = plan.step_parts.map((part) => [part.name, seconds(part.seconds), percent(part.seconds / plan.step_seconds),
      part.with_hidden_seconds > part.seconds * 1.000001 ? seconds(part.with_hidden_seconds - part.seconds) : '']);
    if (plan.lists_seconds) rows.push(['lists of nearest classes, in addition to the step', seconds(plan.lists_seconds), '', '']);
    const label = data.keys.length > 0 ? nameOf(point) : plan.machine;
    const body = element('details', planned.length === 1 ? {open: ''} : {},
      element('summary', {}, `${label}: ${seconds(plan.step_seconds)}`),
      table(['part', 'time', 'share', 'hidden during computations'], rows, [1, 2, 3]));
    find('steps-body').append(body, bar);
  }
}

function showWinners() {
  if (data.points.length < 2 || data.winners.length === 0 || data.fit) return;
  find('winners').hidden = false;
  document.querySelector('nav a[href="#winners"]').hidden = false;
  find('winners-body').append(table(['setting', 'wins where'], data.winners.filter((one) => one.value !== '')
    .map((one) => [`${one.decision} = ${one.value}`, one.where])));
}

// `data-ready` on the root element says that the page is complete.
showHead();
showCharts();
showPoints();
showSteps();
showWinners();
document.documentElement.dataset.ready = Math.round(performance.now());
