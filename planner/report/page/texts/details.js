// The details of an instruction: in the tip at the pointer, and below the schedule for the chosen one.
function detailsOf(at) {
  const begin = columns.begin[at] / 1e9;
  const end = columns.end[at] / 1e9;
  const rows = [['device', schedule.devices[columns.row[at]].name],
                ['time', `${seconds(end - begin)}, from ${seconds(begin)} to ${seconds(end)}`]];
  const run = data.measured ? data.measured.times[at] : null;
  if (run) {
    const took = (run[1] - run[0]) / 1e9;
    const ratio = end > begin ? `, ${(took / (end - begin)).toFixed(2)} × predicted` : '';
    rows.push(['measured', `${seconds(took)}, from ${seconds(run[0] / 1e9)}${ratio}`]);
  }
  if (columns.ops[at] >= 0) rows.push(['operators', schedule.labels[columns.ops[at]]]);
  if (columns.bytes[at] > 0) rows.push(['moves', bytes(columns.bytes[at])]);
  if (columns.flops[at] > 0) {
    const rate = end > begin ? ` (${flops(columns.flops[at] / (end - begin))}/s)` : '';
    rows.push(['computes', flops(columns.flops[at]) + rate]);
  }
  if (columns.group[at] >= 0) rows.push(['exchange', 'group ' + columns.group[at]]);
  rows.push(['waits for', columns.waits[at] >= 0 ? schedule.labels[columns.waits[at]] : 'nothing']);
  if (columns.line[at] >= 0) rows.push(['source', element('code', {}, schedule.lines[columns.line[at]])]);
  return [element('strong', {}, `${schedule.labels[columns.label[at]]} (${columns.id[at]})`), pairs(rows)];
}

function showTip(at, x, y) {
  const tip = find('tip');
  tip.hidden = at < 0;
  if (at < 0) return;
  tip.replaceChildren(...detailsOf(at));
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + 'px';
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18) + 'px';
}

function showDetails(at) {
  find('details').replaceChildren(...(at < 0 ? [] : detailsOf(at)));
}
