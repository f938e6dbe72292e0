// Data of the page, formats of numbers, and small builders of elements.
const data = JSON.parse(document.getElementById('plan-data').textContent);

const find = (id) => document.getElementById(id);

// Three significant digits with a unit: 0.0634 s is "63.4 ms".
function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}
function seconds(value) {
  const size = Math.abs(value);
  if (size === 0) return '0 s';
  if (size >= 7200) return digits(value / 3600) + ' h';
  if (size >= 600) return digits(value / 60) + ' min';
  if (size >= 1) return digits(value) + ' s';
  return size >= 1e-3 ? digits(value * 1e3) + ' ms' : digits(value * 1e6) + ' µs';
}
function scaled(value, step, units) {
  let at = 0;
  while (Math.abs(value) >= step && at + 1 < units.length) { value /= step; at += 1; }
  return (at === 0 ? String(Math.round(value)) : digits(value)) + ' ' + units[at];
}
const bytes = (value) => scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
const flops = (value) => scaled(value, 1000, ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP']);
const whole = (value) => Math.round(value).toLocaleString('en').replace(/,/g, ' ');
const percent = (value) => (100 * value).toFixed(Math.abs(value) < 0.0995 ? 1 : 0) + ' %';

const counted = (number, what) => `${whole(number)} ${what}${number === 1 ? '' : 's'}`;

// element('p', {class: 'note'}, 'text', child): attributes with the value null are left out.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}
function drawing(name, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A table from rows of cells; `right` has the numbers of the columns that are aligned to the right.
function table(head, rows, right = [], caption = '') {
  const cell = (kind) => (content, at) => element(kind, {class: right.includes(at) ? 'number' : null}, content);
  const made = element('table', {},
    head.length > 0 ? element('thead', {}, element('tr', {}, ...head.map(cell('th')))) : null,
    element('tbody', {}, ...rows.map((row) => element('tr', {class: row.chosen ? 'chosen' : null},
                                                       ...row.map(cell('td'))))));
  if (caption) made.prepend(element('caption', {class: 'note'}, caption));
  return element('div', {class: 'scroll'}, made);
}
function meter(share, colour) {
  const bar = element('span', {style: `width:${Math.min(100, 100 * share).toFixed(2)}%;background:var(--${colour})`});
  return element('div', {class: 'meter', role: 'img', 'aria-label': percent(share)}, bar);
}
function pairs(rows) {
  const list = element('dl');
  for (const [name, value] of rows) list.append(element('dt', {}, name), element('dd', {}, value));
  return list;
}

// A figure of the overview.
function figure(name, text, value, about = '') {
  find('figures').append(element('div', {}, element('dt', {}, name), element('dd', {'data-value': value, 'data-name': name},
    text, about ? element('small', {}, about) : null)));
}

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
