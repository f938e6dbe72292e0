// The graph by stage: stages in a row with what they send, and below each stage its layers, which unfold to operators.
// Returns the bytes that stages send to one another in a step; keys are "0 1", from stage 0 to stage 1. A message has a
// group with two instructions, which name the stages.
function sentBetween() {
  const stageOf = (at) => (schedule.labels[columns.label[at]].match(/stage (\d+)/) || [])[1];
  const receivers = new Map();
  for (let at = 0; at < count; at += 1) {
    if (schedule.kinds[columns.kind[at]] === 'recv') receivers.set(columns.group[at], stageOf(at));
  }
  const sums = new Map();
  for (let at = 0; at < count; at += 1) {
    if (schedule.kinds[columns.kind[at]] !== 'send') continue;
    const key = `${stageOf(at)} ${receivers.get(columns.group[at])}`;
    sums.set(key, (sums.get(key) || 0) + columns.bytes[at]);
  }
  return sums;
}

function flowBox(title, text) {
  return element('div', {class: 'box'}, element('b', {}, title), text);
}

function devicesText(devices) {
  const name = report.cluster.gpu ? 'gpu ' : 'cpu ';
  const list = [...devices].sort((a, b) => a - b);
  const run = list.every((device, at) => at === 0 || device === list[at - 1] + 1);
  return list.length > 2 && run ? `${name}${list[0]} to ${list[list.length - 1]}` : name + list.slice(0, 8).join(', ') +
    (list.length > 8 ? `, and ${list.length - 8} more` : '');
}

function showFlow() {
  const sent = sentBetween();
  report.stages.forEach((stage, at) => {
    if (at > 0) {
      const sum = sent.get(`${at - 1} ${at}`);
      const back = sent.get(`${at} ${at - 1}`);
      find('flow').append(element('div', {class: 'arrow'}, sum ? `${bytes(sum)} →` : '→', element('br'),
                                  back ? `← ${bytes(back)}` : ''));
    }
    find('flow').append(flowBox('Stage ' + stage.index, devicesText(stage.devices)));
  });
  if (data.layers.some((layer) => layer.stage < 0)) {
    const holders = new Set(report.shards.map((shard) => shard.device));
    find('flow').append(element('div', {class: 'arrow'}, '⇄', element('br'), 'features, dX'),
                        flowBox('Heads', devicesText(holders)));
  }
}

const kPasses = [['forward', 'forward', 'forward'], ['recompute', 'again', 'forward again (recompute)'],
                 ['backward', 'backward', 'backward']];

function timesBar(layer, most) {
  const bar = element('span', {class: 'times', role: 'img',
    'aria-label': layer.forward === undefined ? 'times unknown'
      : `forward ${seconds(layer.forward)}, backward ${seconds(layer.backward)}` +
        (layer.recompute > 0 ? `, forward again ${seconds(layer.recompute)}` : '')});
  for (const [key, colour, about] of kPasses) {
    if (layer[key] > 0) {
      bar.append(element('span', {title: `${about} ${seconds(layer[key])}`, style: `width:${(100 * layer[key] / most).toFixed(2)}%;background:var(--${colour})`}));
    }
  }
  return bar;
}

function operatorTable(layer) {
  const ops = report.ops;
  const tail = (path) => (path.startsWith(layer.name + '.') ? path.slice(layer.name.length + 1) : path);
  const rows = layer.ops.map((at) => {
    const one = ops[at];
    const time = (value) => (value === null ? '–' : seconds(value));
    return [element('code', {}, tail(one.path)), one.op, element('code', {}, one.output), flops(one.flops),
            time(one.forward_seconds), time(one.backward_seconds),
            data.inputs[at].map((input) => tail(ops[input].path)).join(', ') || 'inputs of the model'];
  });
  return table(['operator', 'kind', 'result', 'forward, one sample', 'forward', 'backward', 'reads'], rows, [3, 4, 5]);
}

// The classes of each shard of a head.
function shardTable(layer) {
  const name = layer.name.replace(/^head /, '');
  const shards = report.shards.filter((shard) => shard.head === name);
  return table(['shard', 'device', 'classes', 'from', 'to'], shards.map((shard) =>
    [String(shard.shard), devicesText([shard.device]), whole(shard.classes[1] - shard.classes[0]), whole(shard.classes[0]),
     whole(shard.classes[1] - 1)]), [0, 2, 3, 4]);
}

// The name of a layer. A layer that the stages cut is "basic (part 1 of 2)".
function layerName(layer) {
  const same = data.layers.filter((one) => one.stage >= 0 && one.name === layer.name);
  const cut = layer.stage >= 0 && new Set(same.map((one) => one.stage)).size > 1;
  return cut ? `${layer.name} (part ${same.indexOf(layer) + 1} of ${same.length})` : layer.name;
}

function layerHead() {
  const cell = (kind, text) => element('span', {class: kind}, text);
  const bar = element('span', {class: 'times-legend'});
  for (const [key, colour, about] of kPasses) {
    if (!data.layers.some((layer) => layer[key] > 0)) continue;
    const swatch = element('span', {class: 'swatch', style: `background:var(--${colour})`});
    bar.append(element('span', {}, swatch, about));
  }
  return element('div', {class: 'layer-head note'}, cell('', ''), cell('', 'layer'), cell('output', 'result'),
                 cell('number', 'parameters'), bar, cell('number', 'time'));
}

// The operators of a layer, or the shards of a head, are made when it is unfolded for the first time, or before printing.
function layerDetails(layer, most) {
  const total = layer.forward === undefined ? null : layer.forward + layer.backward + layer.recompute;
  const made = element('details', {class: 'layer'}, element('summary', {},
    element('span', {}, layerName(layer)), element('span', {class: 'note output'}, layer.output),
    element('span', {class: 'number'}, layer.parameters > 0 ? whole(layer.parameters) : ''), timesBar(layer, most),
    element('span', {class: 'number'}, total === null ? '–' : seconds(total))));
  const fill = () => {
    if (made.open && made.childElementCount === 1) made.append(layer.stage < 0 ? shardTable(layer) : operatorTable(layer));
  };
  made.addEventListener('toggle', fill);
  return made;
}

function showStages() {
  showFlow();
  const total = (layer) => (layer.forward || 0) + (layer.backward || 0) + (layer.recompute || 0);
  const passes = report.stages.map((stage) => stage.forward_seconds + stage.backward_seconds);
  const mean = passes.reduce((all, one) => all + one, 0) / passes.length;
  const most = Math.max(1e-12, ...data.layers.filter((layer) => layer.stage >= 0).map(total));
  const add = (title, layers, largest) => {
    const made = element('details', {class: 'stage', open: ''}, element('summary', {}, title));
    made.append(layerHead());
    layers.forEach((layer) => made.append(layerDetails(layer, largest)));
    find('stages-body').append(made);
  };
  for (const stage of report.stages) {
    const again = stage.recomputed > 0 ? ` and ${counted(stage.recomputed, 'forward operator')} again` : '';
    const sum = passes[stage.index];
    const share = passes.length > 1 && mean > 0 ? ` (${percent(sum / mean)} of the mean of the stages` +
      `${sum >= Math.max(...passes) ? ', the slowest' : ''})` : '';
    add(`Stage ${stage.index}: ${seconds(sum)} for each micro-batch${share}: ` +
        `${counted(stage.layers, 'operator')} forward in ${seconds(stage.forward_seconds)}, ` +
        `${counted(data.backward[stage.index], 'operator')} backward${again} in ${seconds(stage.backward_seconds)}; ` +
        `weights ${bytes(stage.parameter_bytes)}`,
        data.layers.filter((layer) => layer.stage === stage.index), most);
  }
  if (sharedCores()) {
    find('stages-body').append(element('p', {class: 'note'}, 'The times of stages and layers are those with a core for ' +
      `each worker; here ${sharedCores()}, so a pass takes longer in the schedule.`));
  }
  const heads = data.layers.filter((layer) => layer.stage < 0);
  if (heads.length > 0) add('Heads: times of a whole step; bars have a scale of their own', heads, Math.max(1e-12, ...heads.map(total)));
  const fold = (open) => document.querySelectorAll('#stages-body details.layer').forEach((layer) => { layer.open = open; });
  find('unfold').addEventListener('click', () => fold(true));
  find('fold').addEventListener('click', () => fold(false));
}
