// Tests: tests/lang/first_time_test.cpp, tests/cases/other_tools_test.cpp
#include "lang/lower/foreign_settings.h"

#include <algorithm>
#include <array>

#include "lang/text/foreign_names.h"

namespace xrun::lang {
namespace {

struct ForeignSetting {
  std::string_view word;  // in the form of `plain_name`
  std::string_view ours;
};

// Settings of PyTorch and its trainers (Lightning, Transformers, timm), Keras, scikit-learn and InsightFace.
constexpr ForeignSetting kSettings[] = {
    {"numepoch", "epochs"},
    {"numepochs", "epochs"},
    {"nepochs", "epochs"},
    {"nepoch", "epochs"},
    {"maxepoch", "epochs"},
    {"maxepochs", "epochs"},
    {"numtrainepochs", "epochs"},
    {"trainepochs", "epochs"},
    {"maxsteps", "steps"},
    {"numsteps", "steps"},
    {"maxiter", "steps"},
    {"maxiters", "steps"},
    {"maxiterations", "steps"},
    {"iterations", "steps"},
    {"iters", "steps"},
    {"totalsteps", "steps"},
    {"batchsize", "batch"},
    {"globalbatchsize", "batch"},
    {"trainbatchsize", "batch"},
    {"perdevicetrainbatchsize", "batch"},
    {"minibatch", "batch"},
    {"minibatchsize", "batch"},
    {"bs", "batch"},
    {"gradientacc", "grad_accumulation"},
    {"gradacc", "grad_accumulation"},
    {"gradaccum", "grad_accumulation"},
    {"accumulationsteps", "grad_accumulation"},
    {"gradientaccumulation", "grad_accumulation"},
    {"gradientaccumulationsteps", "grad_accumulation"},
    {"gradaccumsteps", "grad_accumulation"},
    {"accumulategradbatches", "grad_accumulation"},
    {"accumiter", "grad_accumulation"},
    {"updatefreq", "grad_accumulation"},
    {"learningrate", "lr"},
    {"baselr", "lr"},
    {"initlr", "lr"},
    {"initiallr", "lr"},
    {"lrscheduler", "lr"},
    {"lrschedulertype", "lr"},
    {"lrschedule", "lr"},
    {"lrpolicy", "lr"},
    {"scheduler", "lr"},
    {"criterion", "loss"},
    {"lossfn", "loss"},
    {"lossfunction", "loss"},
    {"lossfunc", "loss"},
    {"objective", "loss"},
    {"optim", "optimizer"},
    {"opt", "optimizer"},
    {"solver", "optimizer"},
    {"randomseed", "seed"},
    {"rngseed", "seed"},
    {"manualseed", "seed"},
    {"randomstate", "seed"},
    {"classweight", "class_weights"},
    {"metric", "metrics"},
    {"frozen", "freeze"},
    {"freezelayers", "freeze"},
    {"emadecay", "ema"},
    {"modelema", "ema"},
    {"dtype", "precision"},

    {"amp", "precision = mixed(bf16)"},
    {"useamp", "precision = mixed(bf16)"},
    {"fp16", "precision = mixed(f16)"},
    {"bf16", "precision = mixed(bf16)"},
    {"half", "precision = mixed(f16)"},
    {"mixedprecision", "precision = mixed(bf16)"},
    {"samplerate", "active_classes = sample({})"},
    {"gradclip", "clip = norm({})"},
    {"gradclipnorm", "clip = norm({})"},
    {"clipgradnorm", "clip = norm({})"},
    {"clipgrad", "clip = norm({})"},
    {"clipnorm", "clip = norm({})"},
    {"maxgradnorm", "clip = norm({})"},
    {"maxnorm", "clip = norm({})"},
    {"gradientclipping", "clip = norm({})"},
    {"gradientclipval", "clip = norm({})"},
    {"clipvalue", "clip = value({})"},
    {"savesteps", "checkpoint.every = {} steps"},
    {"saveepochs", "checkpoint.every = {} epochs"},
    {"savetotallimit", "checkpoint.keep = {}"},
    {"maxtokeep", "checkpoint.keep = {}"},
    {"loggingsteps", "log.every = {} steps"},
    {"logeverynsteps", "log.every = {} steps"},
    {"loginterval", "log.every = {} steps"},
    {"logfreq", "log.every = {} steps"},
    {"printfreq", "log.every = {} steps"},
    {"frequent", "log.every = {} steps"},
    {"evalsteps", "eval.every = {} steps"},
    {"checkvaleverynepoch", "eval.every = {} epochs"},
    {"outputdir", "checkpoint.dir = {}"},
    {"output", "checkpoint.dir = {}"},
    {"workdir", "checkpoint.dir = {}"},
    {"savedir", "checkpoint.dir = {}"},
    {"checkpointdir", "checkpoint.dir = {}"},
    {"defaultrootdir", "checkpoint.dir = {}"},
    {"loadfrom", "init = checkpoint({})"},
    {"initfrom", "init = checkpoint({})"},
    {"pretrained", "init = checkpoint({})"},

    {"momentum", "?optimizer = sgd(momentum={})"},
    {"weightdecay", "?optimizer = sgd(momentum=0.9, weight_decay={})"},
    {"wd", "?optimizer = sgd(momentum=0.9, weight_decay={})"},
    {"warmup", "?lr = [warmup(0 .. 0.1, {} epochs), cosine(0.1 .. 0)]"},
    {"warmupepoch", "?lr = [warmup(0 .. 0.1, {} epochs), cosine(0.1 .. 0)]"},
    {"warmupepochs", "?lr = [warmup(0 .. 0.1, {} epochs), cosine(0.1 .. 0)]"},
    {"warmupsteps", "?lr = [warmup(0 .. 0.1, {} steps), cosine(0.1 .. 0)]"},
    {"warmupiters", "?lr = [warmup(0 .. 0.1, {} steps), cosine(0.1 .. 0)]"},
    {"numwarmupsteps", "?lr = [warmup(0 .. 0.1, {} steps), cosine(0.1 .. 0)]"},
    {"milestones", "?lr = steps(0.1, at=[5 epochs, 8 epochs])"},
    {"stepsize", "?lr = steps(0.1, at=[5 epochs, 8 epochs])"},
    {"gamma", "?lr = steps(0.1, at=[5 epochs, 8 epochs])"},
    {"lrdecay", "?lr = cosine(0.1 .. 0)"},
    {"minlr", "?lr = cosine(0.1 .. {})"},
    {"labelsmoothing", "?smoothing={} in the loss: softmax_ce(logits, label, smoothing={})"},
    {"labelsmoothingfactor", "?smoothing={} in the loss: softmax_ce(logits, label, smoothing={})"},
    {"smoothing", "?smoothing={} in the loss: softmax_ce(logits, label, smoothing={})"},
    {"interclassfilteringthreshold", "?filter={} in the loss: combined_margin(id, label, filter={})"},
    {"patience", "?stop_when = plateau(test, {} epochs), where `test` is a metric of `eval`"},
    {"earlystopping", "?stop_when = plateau(test, 3 epochs), where `test` is a metric of `eval`"},
    {"loadbestmodelatend", "?checkpoint.best = highest(test, 1), where `test` is a metric of `eval`"},
    {"metricforbestmodel", "?checkpoint.best = highest(test, 1), where `test` is a metric of `eval`"},
    {"shuffle", "?order = shuffled, which is the default, or order = sequential"},
    {"numclasses", "?the classes of the head in the model: head id = cosine_classifier(feature, {})"},
    {"embeddingsize", "?the width of the last layer in the model: feature = x -> linear({})"},
    {"network", "?the layers in a `model`, or a net of std/nets: from \"std/nets\" use iresnet"},
    {"backbone", "?the layers in a `model`, or a net of std/nets: from \"std/nets\" use iresnet"},
    {"datadir", "?a source of `data`: source train = folder({})"},
    {"dataroot", "?a source of `data`: source train = folder({})"},
    {"rec", "?a source of `data`: source train = folder({})"},
    {"traindata", "?a source of `data`: source train = folder({})"},
    {"valdata",
     "?a source of `data`, source val = ..., and a metric of it: eval { val = accuracy(id, label, source=val) }"},
    {"valtargets",
     "?a source of `data`, source val = ..., and a metric of it: eval { val = accuracy(id, label, source=val) }"},
    {"validationdata",
     "?a source of `data`, source val = ..., and a metric of it: eval { val = accuracy(id, label, source=val) }"},
    {"device", "?--devices cuda on the command line (a file names no devices)"},
    {"devices", "?--devices on the command line (a file names no devices)"},
    {"gpus", "?--devices cuda on the command line (a file names no devices)"},
    {"accelerator", "?--devices cuda on the command line (a file names no devices)"},
    {"numworkers", "?--threads on the command line (a file names no threads)"},
    {"dataloadernumworkers", "?--threads on the command line (a file names no threads)"},
    {"resume", "?--resume on the command line"},
    {"resumefromcheckpoint", "?--resume on the command line"},
};

struct ForeignChoice {
  std::string_view key;
  std::string_view word;  // in the form of `plain_name`
  std::string_view ours;
};

constexpr ForeignChoice kChoices[] = {
    {"precision", "bf16", "mixed(bf16)"},
    {"precision", "bfloat16", "mixed(bf16)"},
    {"precision", "bf16mixed", "mixed(bf16)"},
    {"precision", "f16", "mixed(f16)"},
    {"precision", "fp16", "mixed(f16)"},
    {"precision", "float16", "mixed(f16)"},
    {"precision", "16", "mixed(f16)"},
    {"precision", "16mixed", "mixed(f16)"},
    {"precision", "mixedfloat16", "mixed(f16)"},
    {"precision", "mixedbfloat16", "mixed(bf16)"},
    {"precision", "half", "mixed(f16)"},
    {"precision", "amp", "mixed(bf16)"},
    {"precision", "mixed", "mixed(bf16)"},
    {"precision", "true", "mixed(bf16)"},
    {"precision", "fp32", "f32"},
    {"precision", "32", "f32"},
    {"precision", "float32", "f32"},
    {"precision", "float", "f32"},
    {"precision", "single", "f32"},
    {"class_weights", "balanced", "inverse_frequency"},
    {"class_weights", "balancedsubsample", "inverse_frequency"},
    {"class_weights", "inverse", "inverse_frequency"},
    {"class_weights", "auto", "inverse_frequency"},
    {"class_weights", "frequency", "inverse_frequency"},
    {"class_weights", "true", "inverse_frequency"},
    {"order", "random", "shuffled"},
    {"order", "shuffle", "shuffled"},
    {"order", "true", "shuffled"},
    {"order", "false", "sequential"},
    {"order", "weighted", "balanced"},
    {"reduce", "average", "mean"},
    {"reduce", "avg", "mean"},
    {"init", "random", "seed"},
    {"init", "scratch", "seed"},
    {"init", "default", "seed"},
    {"init", "xavier", "seed"},
    {"init", "kaiming", "seed"},
    {"init", "he", "seed"},
};

// Also removes hyphens, as in "bf16-mixed".
std::string plain_choice(std::string_view word) {
  std::string text = plain_name(word);
  std::erase(text, '-');
  return text;
}

}  // namespace

std::string_view foreign_setting(std::string_view word) {
  const std::string plain = plain_name(word);
  const auto found = std::ranges::find(kSettings, plain, &ForeignSetting::word);
  return found == std::end(kSettings) ? std::string_view() : found->ours;
}

bool stands_for(std::string_view word, std::string_view key) {
  std::string_view ours = foreign_setting(word);
  ours.remove_prefix(ours.starts_with('?') ? 1 : 0);
  return !ours.empty() && (ours == key || ours.starts_with(std::string(key) + " ="));
}

std::string_view foreign_choice(std::string_view key, std::string_view word) {
  const std::string plain = plain_choice(word);
  const auto found =
      std::ranges::find_if(kChoices, [&](const ForeignChoice& one) { return one.key == key && one.word == plain; });
  return found == std::end(kChoices) ? std::string_view() : found->ours;
}

bool means_none(std::string_view word) {
  constexpr std::array<std::string_view, 9> kWords{"none",  "null",     "nil", "off",      "no",
                                                   "false", "disabled", "nan", "undefined"};
  return std::ranges::find(kWords, plain_name(word)) != kWords.end();
}

}  // namespace xrun::lang
