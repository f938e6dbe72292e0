// The schedule on a canvas: for each device a lane of computations, a lane of exchanges below it, and a lane with the
// measured computations of a run. All times are nanoseconds.
const kLane = 24;
const kThin = 9;
const kGap = 10;
const kAxis = 22;

// A time of the axis in the unit of the step `end`, with as many digits as the distance of ticks needs.
function tickText(tick, step, end) {
  const [scale, unit] = end >= 1 ? [1, 's'] : end >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
  return (tick * scale).toFixed(Math.max(0, -Math.floor(Math.log10(step * scale) + 1e-9))) + ' ' + unit;
}

class ScheduleView {
  constructor(canvas) {
    this.canvas = canvas;
    this.end = Math.max(1, Math.round(schedule.makespan * 1e9), ...(data.measured ? this.measuredEnds() : []));
    this.from = 0;
    this.to = this.end;
    this.chosen = -1;
    this.makeRows();
    this.listen();
    this.draw();
  }

  measuredEnds() {
    return [data.measured.times.reduce((most, run) => (run ? Math.max(most, run[1]) : most), 0)];
  }

  // The lanes from top to bottom: {name, device, comm, run, top, height, items}, items in order of their begin.
  makeRows() {
    this.rows = [];
    let top = kAxis;
    schedule.devices.forEach((device, row) => {
      const own = [];
      for (let at = 0; at < count; at += 1) if (columns.row[at] === row) own.push(at);
      const lanes = [[0, kLane, false], [1, kThin, false], [0, kThin, true]];
      for (const [comm, height, run] of lanes) {
        const items = own.filter((at) => columns.comm[at] === comm && (!run || (data.measured && data.measured.times[at])));
        if (items.length === 0) continue;
        const row2 = {comm, run, top, height, items, device, name: comm || run ? '' : device.name};
        items.sort((a, b) => this.begin(row2, a) - this.begin(row2, b));
        this.rows.push(row2);
        top += height + 2;
      }
      top += kGap;
    });
    this.height = top;
  }

  begin(row, at) { return row.run ? data.measured.times[at][0] : columns.begin[at]; }
  finish(row, at) { return row.run ? data.measured.times[at][1] : columns.end[at]; }
  left() { return Math.min(190, this.width * 0.22); }
  x(time) { return this.left() + (time - this.from) / (this.to - this.from) * (this.width - this.left()); }
  time(x) { return this.from + (x - this.left()) / (this.width - this.left()) * (this.to - this.from); }

  draw() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth || 900;
    this.canvas.style.height = this.height + 'px';
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    const ink = this.canvas.getContext('2d');
    ink.setTransform(scale, 0, 0, scale, 0, 0);
    ink.fillStyle = colourOf('paper');
    ink.fillRect(0, 0, this.width, this.height);
    this.drawAxis(ink);
    this.colours = Object.fromEntries(Object.keys(groups).map((name) => [name, [colourOf(name), colourOf('on-' + name)]]));
    for (const row of this.rows) this.drawRow(ink, row);
    this.drawNames(ink);
  }

  drawAxis(ink) {
    const span = (this.to - this.from) / 1e9;
    const minutes = this.end >= 120e9 ? 60 : 1;  // ticks are round numbers of the unit
    const rough = span / minutes / Math.max(2, (this.width - this.left()) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = minutes * power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1);
    ink.font = '11px system-ui, sans-serif';
    ink.textBaseline = 'middle';
    for (let tick = Math.ceil(this.from / 1e9 / step) * step; tick * 1e9 <= this.to; tick += step) {
      const x = Math.round(this.x(tick * 1e9)) + 0.5;
      ink.strokeStyle = colourOf('line');
      ink.beginPath();
      ink.moveTo(x, kAxis - 4);
      ink.lineTo(x, this.height);
      ink.stroke();
      ink.fillStyle = colourOf('soft');
      ink.fillText(tickText(tick, step, this.end / 1e9), Math.min(x + 3, this.width - 52), kAxis / 2 - 2);
    }
  }

  // Instructions that are narrower than half a pixel and begin in the same half pixel are drawn once.
  drawRow(ink, row) {
    ink.fillStyle = colourOf('sheet');
    ink.fillRect(this.left(), row.top, this.width - this.left(), row.height);
    let last = -1;
    for (const at of row.items) {
      const begin = this.begin(row, at);
      const end = this.finish(row, at);
      if (end < this.from || begin > this.to) continue;
      const x = Math.max(this.left(), this.x(begin));
      const width = Math.min(this.width, this.x(end)) - x;
      if (x + width <= last + 0.5) continue;
      last = x + width;
      const group = groupAt(at);
      ink.fillStyle = this.colours[group][0];
      ink.globalAlpha = row.run ? 0.6 : 1;
      ink.fillRect(x, row.top, Math.max(width - (width > 3 ? 1 : 0), 0.7), row.height);
      ink.globalAlpha = 1;
      if (row.height === kLane && width > 15) this.drawLabel(ink, row, at, group, x, width);
      if (at === this.chosen) {
        ink.strokeStyle = colourOf('choice');
        ink.lineWidth = 2;
        ink.strokeRect(x, row.top + 1, Math.max(width - 1, 2), row.height - 2);
        ink.lineWidth = 1;
      }
    }
  }

  drawLabel(ink, row, at, group, x, width) {
    const letter = groups[group][1];
    const number = columns.micro_batch[at];
    const long = schedule.labels[columns.label[at]];
    const short = letter + (number >= 0 ? number : '');
    ink.font = '11px system-ui, sans-serif';
    const text = ink.measureText(long).width < width - 8 ? long : ink.measureText(short).width < width - 4 ? short : '';
    ink.fillStyle = this.colours[group][1];
    ink.fillText(text, x + 4, row.top + row.height / 2 + 0.5);
  }

  drawNames(ink) {
    ink.fillStyle = colourOf('paper');
    ink.fillRect(0, 0, this.left() - 1, this.height);
    ink.font = '12px system-ui, sans-serif';
    for (const row of this.rows) {
      if (!row.name) continue;
      const more = row.device.alike.length - 1;
      ink.fillStyle = colourOf('ink');
      ink.fillText(row.name, 8, row.top + (more > 0 ? 7 : row.height / 2), this.left() - 14);
      ink.fillStyle = colourOf('soft');
      if (more > 0) ink.fillText(`and ${more} alike`, 8, row.top + 20, this.left() - 14);
    }
  }

  rowAt(y) { return this.rows.find((row) => y >= row.top && y < row.top + row.height); }

  // The instruction at a point of the canvas; -1: there is none. Short ones are found within two pixels.
  itemAt(x, y) {
    const row = this.rowAt(y);
    if (!row || x < this.left()) return -1;
    const time = this.time(x);
    const slack = 2 * (this.to - this.from) / (this.width - this.left());
    let best = -1;
    for (const at of row.items) {
      if (this.begin(row, at) <= time && time < this.finish(row, at)) return at;
      if (this.begin(row, at) - slack <= time && time < this.finish(row, at) + slack) best = at;
    }
    return best;
  }

  // The gap of a lane of computations at a point of the canvas, or null.
  gapAt(x, y) {
    const row = this.rowAt(y);
    if (!row || row.comm || row.run || x < this.left()) return null;
    const time = this.time(x);
    let from = 0;
    for (const at of row.items) {
      if (columns.begin[at] > time) {
        return from <= time ? {device: row.device, from, to: columns.begin[at], next: at} : null;
      }
      from = Math.max(from, columns.end[at]);
    }
    return from <= time && time < this.end ? {device: row.device, from, to: this.end, next: -1} : null;
  }

  // The details of the instruction or gap at a point of the canvas, or null.
  contentAt(x, y) {
    const at = this.itemAt(x, y);
    const gap = at < 0 ? this.gapAt(x, y) : null;
    return at >= 0 ? detailsOf(at) : gap ? detailsOfGap(gap) : null;
  }

  view(from, to) {
    const least = Math.max(20, this.end / 1e6);
    const span = Math.min(this.end, Math.max(least, to - from));
    this.from = Math.max(0, Math.min(from, this.end - span));
    this.to = this.from + span;
    this.draw();
  }
  zoom(factor, centre = (this.from + this.to) / 2) {
    this.view(centre - (centre - this.from) / factor, centre + (this.to - centre) / factor);
  }

  choose(at) {
    this.chosen = at;
    if (at >= 0 && (columns.end[at] < this.from || columns.begin[at] > this.to)) {
      const half = (this.to - this.from) / 2;
      this.view(columns.begin[at] - half, columns.begin[at] + half);
    }
    this.draw();
    showTip(null);
    showDetails(at < 0 ? null : detailsOf(at));
  }

  // Moves the choice within its row (`along`) or to the nearest instruction of another row.
  move(along, across) {
    const home = this.rows.findIndex((row) => !row.run && row.items.includes(this.chosen));
    if (home < 0) {
      this.choose(this.rows[0].items[0]);
    } else if (along !== 0) {
      const items = this.rows[home].items;
      this.choose(items[Math.max(0, Math.min(items.length - 1, items.indexOf(this.chosen) + along))]);
    } else {
      let next = home + across;
      while (this.rows[next] && this.rows[next].run) next += across;
      if (!this.rows[next]) return;
      const time = columns.begin[this.chosen];
      const near = (a, b) => Math.abs(columns.begin[a] - time) <= Math.abs(columns.begin[b] - time);
      this.choose(this.rows[next].items.reduce((best, at) => (near(best, at) ? best : at)));
    }
  }

  key(event) {
    const shift = (this.to - this.from) / 5;
    const actions = {
      ArrowLeft: () => (event.shiftKey ? this.view(this.from - shift, this.to - shift) : this.move(-1, 0)),
      ArrowRight: () => (event.shiftKey ? this.view(this.from + shift, this.to + shift) : this.move(1, 0)),
      ArrowUp: () => this.move(0, -1),
      ArrowDown: () => this.move(0, 1),
      '+': () => this.zoomAtChoice(1.6),
      '=': () => this.zoomAtChoice(1.6),
      '-': () => this.zoomAtChoice(1 / 1.6),
      0: () => this.view(0, this.end),
      Escape: () => this.choose(-1),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    showTip(null);
    actions[event.key]();
  }
  zoomAtChoice(factor) {
    this.zoom(factor, this.chosen >= 0 ? (columns.begin[this.chosen] + columns.end[this.chosen]) / 2 : undefined);
  }

  listen() {
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let drag = null;
    let still = [];  // the last place of the pointer: browsers also report a move if only the page below it changed
    this.canvas.addEventListener('pointerdown', (event) => {
      showTip(null);
      drag = {x: event.clientX, from: this.from, to: this.to, moved: false};
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener('pointermove', (event) => {
      if (drag && (drag.moved || Math.abs(event.clientX - drag.x) > 3)) {
        drag.moved = true;
        showTip(null);
        const moved = (drag.x - event.clientX) / (this.width - this.left()) * (drag.to - drag.from);
        this.view(drag.from + moved, drag.to + moved);
      } else if (still[0] !== event.clientX || still[1] !== event.clientY) {
        showTip(this.contentAt(...place(event)), event.clientX, event.clientY);
      }
      still = [event.clientX, event.clientY];
    });
    this.canvas.addEventListener('pointerup', (event) => {
      if (drag && !drag.moved) {
        this.choose(this.itemAt(...place(event)));
        if (this.chosen < 0) showDetails(this.contentAt(...place(event)));
      }
      drag = null;
    });
    this.canvas.addEventListener('pointerleave', () => showTip(null));
    document.addEventListener('keydown', () => showTip(null));
    this.canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.25 : 0.8, this.time(place(event)[0]));
    }, {passive: false});
    this.canvas.addEventListener('dblclick', (event) => this.zoom(3, this.time(place(event)[0])));
    this.canvas.addEventListener('keydown', (event) => this.key(event));
    find('zoom-in').addEventListener('click', () => this.zoomAtChoice(1.6));
    find('zoom-out').addEventListener('click', () => this.zoomAtChoice(1 / 1.6));
    find('zoom-all').addEventListener('click', () => this.view(0, this.end));
    for (const query of ['(prefers-color-scheme: dark)', 'print']) {
      matchMedia(query).addEventListener('change', () => this.draw());
    }
    addEventListener('beforeprint', () => this.view(0, this.end));
    addEventListener('resize', () => this.draw());
  }
}

function showSchedule() {
  const used = new Set(columns.kind ? columns.kind.map((kind, at) => groupAt(at)) : []);
  for (const [name, , about] of Object.values(groups)) {
    if (used.has(name)) {
      find('legend').append(element('li', {}, element('span', {class: 'swatch', style: `background:var(--${name})`}), about));
    }
  }
  const notes = [];
  if (schedule.data_seconds > 5e-4 * report.predicted.step_seconds) {
    notes.push(`Reading data makes the step ${seconds(schedule.data_seconds)} longer than drawn.`);
  }
  if (schedule.left_out > 0) {
    notes.push(`${schedule.left_out} more devices are not drawn; “xrun show PLAN --gantt --format json” has all.`);
  }
  if (data.measured) notes.push('The thin pale lane of a device has the measured times of its computations.');
  find('schedule-note').textContent = notes.join(' ');
  return count > 0 ? new ScheduleView(find('schedule-canvas')) : null;
}
