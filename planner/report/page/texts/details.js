// The details of an instruction or of a gap: in the tip at the pointer, and below the schedule for the chosen one.
const places = new Map(columns.id ? columns.id.map((id, at) => [id, at]) : []);
const kMostNeeds = 12;

// A time of the step, in the unit of the step, with as many digits as the length of its interval needs.
function timeText(value, length) {
  const step = report.predicted.step_seconds;
  const [scale, unit] = step >= 1 ? [1, 's'] : step >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
  const needed = length > 0 ? Math.ceil(-Math.log10(length * scale)) + 1 : 2;
  return (value * scale).toFixed(Math.max(1, Math.min(7, needed))) + ' ' + unit;
}

// The name of an instruction, as a link that chooses it if it is drawn; `row` is the row of the reader.
function nameOf(id, row) {
  const at = places.get(id);
  if (at === undefined) {
    const [label, device] = schedule.elsewhere[id];
    return element('span', {}, `${schedule.labels[label]} (${id}, ${device === 'host' ? 'host' : 'device ' + device})`);
  }
  const link = element('a', {href: '#schedule'}, `${schedule.labels[columns.label[at]]} (${id}` +
    (columns.row[at] === row ? ')' : `, ${schedule.devices[columns.row[at]].name.split(' · ')[0]})`));
  link.addEventListener('click', (event) => {
    event.preventDefault();
    view.choose(at);
    view.canvas.focus({preventScroll: true});
  });
  return link;
}

function endOf(id) {
  return (places.has(id) ? columns.end[places.get(id)] : schedule.elsewhere[id][2]) / 1e9;
}

// The rows "starts after" and "needs": the predecessor that ends last, and the other dependences.
function causesOf(at) {
  const after = columns.after[at];
  const length = (columns.end[at] - columns.begin[at]) / 1e9;
  const rows = [['starts after', after < 0 ? 'nothing: it starts with the step'
    : element('span', {}, nameOf(after, columns.row[at]), `, ends ${timeText(endOf(after), length)}`)]];
  const needs = columns.needs[at];
  if (needs.length > 0) {
    const list = element('span', {});
    needs.slice(0, kMostNeeds).forEach((id, place) => list.append(place > 0 ? ', ' : '', nameOf(id, columns.row[at])));
    if (needs.length > kMostNeeds) list.append(`, and ${needs.length - kMostNeeds} more`);
    rows.push(['needs', list]);
  }
  return rows;
}

// A gap of a row: {device, from, to, next}; `next` is the instruction that ends it, or -1.
function detailsOfGap(gap) {
  const length = (gap.to - gap.from) / 1e9;
  const row = schedule.devices.indexOf(gap.device);
  const after = gap.next < 0 ? -1 : columns.after[gap.next];
  const why = gap.next < 0 ? 'it computes nothing more in this step'
    : after < 0 ? 'its next instruction starts with the step' : element('span', {}, 'waits for ', nameOf(after, row));
  return [element('strong', {}, `idle ${seconds(length)}, `, why),
          pairs([['device', gap.device.name],
                 ['time', `from ${timeText(gap.from / 1e9, length)} to ${timeText(gap.to / 1e9, length)}`],
                 ...(gap.next < 0 ? [] : [['next', nameOf(columns.id[gap.next], row)]])])];
}

function detailsOf(at) {
  const begin = columns.begin[at] / 1e9;
  const end = columns.end[at] / 1e9;
  const rows = [['device', schedule.devices[columns.row[at]].name],
                ['time', `${seconds(end - begin)}, from ${timeText(begin, end - begin)} to ${timeText(end, end - begin)}`]];
  const work = columns.work[at] / 1e9;
  if (sharedCores() && columns.comm[at] === 0 && columns.group[at] < 0 && end - begin > 1.01 * work) {
    rows.push(['longer', `it takes ${seconds(work)} with a core for each worker; here ${sharedCores()}`]);
  }
  const run = data.measured ? data.measured.times[at] : null;
  if (run) {
    const took = (run[1] - run[0]) / 1e9;
    const ratio = end > begin ? `, ${(took / (end - begin)).toFixed(2)} × predicted` : '';
    rows.push(['measured', `${seconds(took)}, from ${timeText(run[0] / 1e9, took)}${ratio}`]);
  }
  if (columns.ops[at] >= 0) rows.push(['operators', schedule.labels[columns.ops[at]]]);
  if (columns.bytes[at] > 0) rows.push(['moves', bytes(columns.bytes[at])]);
  if (columns.flops[at] > 0) {
    const rate = end > begin ? ` (${flops(columns.flops[at] / (end - begin))}/s)` : '';
    rows.push(['computes', flops(columns.flops[at]) + rate]);
  }
  if (columns.group[at] >= 0) rows.push(['exchange', 'group ' + columns.group[at]]);
  rows.push(...causesOf(at));
  if (columns.line[at] >= 0) rows.push(['source', element('code', {}, schedule.lines[columns.line[at]])]);
  return [element('strong', {}, `${schedule.labels[columns.label[at]]} (${columns.id[at]})`), pairs(rows)];
}

// `content`: the children of the tip, or null to hide it.
function showTip(content, x, y) {
  const tip = find('tip');
  tip.hidden = !content;
  if (!content) return;
  tip.replaceChildren(...content);
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + 'px';
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18) + 'px';
}

function showDetails(content) {
  find('details').replaceChildren(...(content || []));
}
