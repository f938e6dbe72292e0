// The data of a plan, and the groups of its instructions.
const report = data.report;
const schedule = data.schedule;
const columns = schedule.columns;
const count = columns.id ? columns.id.length : 0;

// "8 devices share 2 cores", or an empty text if each worker has a core.
function sharedCores() {
  const {gpu, threads, cores, devices} = report.cluster;
  if (gpu || threads <= cores) return '';
  return threads === devices ? `${counted(devices, 'device')} share ${counted(cores, 'core')}`
    : `${counted(threads, 'worker')} of ${counted(devices, 'device')} share ${counted(cores, 'core')}`;
}

// A time within the step, in seconds or the smaller unit of the step.
function stepTime(value) {
  const step = report.predicted.step_seconds;
  if (value === 0) return '0 s';
  return step >= 1 ? digits(value) + ' s' : step >= 1e-3 ? digits(value * 1e3) + ' ms' : digits(value * 1e6) + ' µs';
}

// Each kind of instruction belongs to a group, which has a colour and a letter.
const groups = {
  forward: ['forward', 'F', 'Forward pass'],
  backward: ['backward', 'B', 'Backward pass'],
  inputs: ['inputs', 'I', 'Gradients of inputs'],
  weights: ['weights', 'W', 'Gradients of weights'],
  head: ['head', 'H', 'Head'],
  update: ['update', 'U', 'Sums and update'],
  comm: ['comm', '', 'Exchange'],
  other: ['other', '', 'Copy'],
};
function groupOf(kind) {
  if (kind === 'forward' || kind === 'backward') return kind;
  if (/^(send|recv|all.gather|reduce.scatter)$/.test(kind)) return 'comm';
  if (/^(head|reduce|sum-dx)/.test(kind)) return 'head';
  return kind === 'copy' ? 'other' : 'update';
}
const kindGroups = schedule.kinds.map(groupOf);

// The group of an instruction. The parts of a split backward pass have groups of their own.
function groupAt(at) {
  const group = kindGroups[columns.kind[at]];
  if (group !== 'backward') return group;
  const label = schedule.labels[columns.label[at]];
  return label.startsWith('input gradient') ? 'inputs' : label.startsWith('weight gradient') ? 'weights' : group;
}
