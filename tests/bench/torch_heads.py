"""Runs a training step of a classifier head in PyTorch on the CPU, for the comparison with `xrun bench head`.

  torch_heads.py KIND CLASSES DIM BATCH DTYPE THREADS

After a warm-up step, the process prints a line of JSON, which says that the head is ready, or why it cannot be measured
(torch.compile without a compiler). Then it runs one step for each line on stdin, and prints the time of the step and the
peak memory of the process. KIND is one of

  plain       linear, cross_entropy, backward, fused SGD
  chunked     splits the classes into eight chunks that are recomputed in the backward pass; each chunk is updated, and its
              gradient is freed, as soon as the gradient is complete
  compiled    plain with torch.compile
  sampled=R   Partial FC: the classes of the batch and random others, a share R of all classes; only their rows are updated
              (An et al., "Killing Two Birds with One Stone: Efficient and Robust Training of Face Recognition CNNs by
              Partial FC", CVPR 2022)

Weights are f32; bf16 means autocast. The loss is the mean of softmax cross entropy, and each step also computes the gradient
of the features.
"""

import json
import sys
import time

CHUNKS = 8
RATE = 0.1


def memory(key):
    """Returns VmHWM or VmRSS of this process, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key + ":"))


def make_plain(torch, weight, features, labels, classify):
    weight = torch.nn.Parameter(weight)
    optimizer = torch.optim.SGD([weight], lr=RATE, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        features.grad = None
        loss = classify(features, weight, labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def make_chunked(torch, weight, features, labels, autocast):
    from torch.utils.checkpoint import checkpoint

    # `data` gives each chunk its own version counter, so that the update of one chunk does not disturb the
    # recomputation of another.
    chunks = [torch.nn.Parameter(chunk.data) for chunk in weight.chunk(CHUNKS)]
    size = chunks[0].shape[0]

    @torch.no_grad()
    def update(chunk):
        chunk.add_(chunk.grad, alpha=-RATE)
        chunk.grad = None

    for chunk in chunks:
        chunk.register_post_accumulate_grad_hook(update)

    def statistics(x, chunk, first):
        with autocast():
            logits = torch.nn.functional.linear(x, chunk)
        logits = logits.float()
        inside = (labels >= first) & (labels < first + chunk.shape[0])
        target = logits.gather(1, (labels - first).clamp(0, chunk.shape[0] - 1)[:, None])[:, 0]
        return logits.logsumexp(1), torch.where(inside, target, 0.0)

    def step():
        features.grad = None
        parts = [checkpoint(statistics, features, chunk, i * size, use_reentrant=False) for i, chunk in enumerate(chunks)]
        sums = torch.stack([part[0] for part in parts]).logsumexp(0)
        loss = (sums - torch.stack([part[1] for part in parts]).sum(0)).mean()
        loss.backward()
        return loss.item()

    return step


def make_sampled(torch, weight, features, labels, classify, rate):
    classes = weight.shape[0]
    count = max(1, int(rate * classes))

    def step():
        features.grad = None
        positive = labels.unique()
        if len(positive) >= count:
            index = positive
        else:
            keys = torch.rand(classes)
            keys[positive] = 2
            index = keys.topk(count).indices.sort().values
        active = weight[index].requires_grad_()
        loss = classify(features, active, torch.searchsorted(index, labels))
        loss.backward()
        weight.index_add_(0, index, active.grad, alpha=-RATE)
        return loss.item()

    return step


def make(torch, kind, classes, dim, batch, dtype):
    generator = torch.Generator().manual_seed(1)
    uniform = lambda *shape: torch.rand(*shape, generator=generator).mul_(2).sub_(1)
    weight = uniform(classes, dim).mul_(dim**-0.5)
    features = uniform(batch, dim).requires_grad_()
    labels = torch.arange(batch) * 7919 % classes
    autocast = lambda: torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bf16")

    def classify(x, w, y):
        with autocast():
            return torch.nn.functional.cross_entropy(torch.nn.functional.linear(x, w), y)

    if kind == "chunked":
        return make_chunked(torch, weight, features, labels, autocast)
    if kind.startswith("sampled="):
        return make_sampled(torch, weight, features, labels, classify, float(kind.removeprefix("sampled=")))
    if kind not in ("plain", "compiled"):
        raise SystemExit(f"there is no kind {kind}")
    return make_plain(torch, weight, features, labels, torch.compile(classify) if kind == "compiled" else classify)


def answer(**values):
    print(json.dumps(values), flush=True)


def main():
    kind, classes, dim, batch, dtype, threads = sys.argv[1:]
    import torch

    torch.set_num_threads(int(threads))
    before = memory("VmRSS")
    step = make(torch, kind, int(classes), int(dim), int(batch), dtype)
    try:
        step()
    except Exception as fault:
        if kind != "compiled":
            raise
        answer(skipped=f"torch.compile failed: {str(fault).splitlines()[0]}")  # for example, no compiler is installed
        return
    answer(torch=torch.__version__, before_bytes=before)
    for _ in sys.stdin:
        began = time.perf_counter()
        loss = step()
        answer(seconds=time.perf_counter() - began, loss=loss, peak_bytes=memory("VmHWM"))


if __name__ == "__main__":
    main()
