"""Cases, their data, the training loop and the digests that the fixtures hold."""

import math

import numpy as np
import torch
import torch.nn.functional as F

import keyed
import models

STEPS = 20
LEARNING_RATE = 1e-3
MAX_GRADIENT_NORM = 1.0
SAMPLES = 6


class Case:
    """A model, its batch and where its data come from.

    `streams` lists (name of the key, kind, shape without batch) of the model's inputs; kind is
    "normal" or the bound of integers. `target` is the same for the targets. With a weight decay the
    optimizer is AdamW (decoupled decay of every parameter), without one it is Adam. With a
    `max_gradient_norm` gradients are clipped to it by torch.nn.utils.clip_grad_norm_.
    """

    def __init__(self, name, seed, build, config, batch, streams, target, loss, weight_decay=0.0,
                 max_gradient_norm=None):
        self.name, self.seed, self.build, self.config = name, seed, build, config
        self.batch, self.streams, self.target, self.loss = batch, streams, target, loss
        self.weight_decay, self.max_gradient_norm = weight_decay, max_gradient_norm

    def optimizer_name(self):
        return "adamw" if self.weight_decay else "adam"

    def optimizer(self, model):
        if self.weight_decay:
            return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE,
                                     weight_decay=self.weight_decay)
        return torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def model(self, dtype, **arguments):
        """The model with its keyed initial parameters."""
        model = self.build(self.config, **arguments).to(dtype).train()
        initialise(model, self.seed)
        return model

    def data(self, step, dtype):
        """(inputs, targets) of the global batch of step 0, 1, ..."""
        inputs = [draw(self.seed, stream, self.batch, step, dtype) for stream in self.streams]
        return inputs, draw(self.seed, self.target, self.batch, step, dtype)

    def loss_value(self, outputs, targets):
        if self.loss == "mean_squared_error":
            return F.mse_loss(outputs, targets)
        return models.token_cross_entropy(outputs, targets)


def draw(seed, stream, batch, step, dtype):
    name, kind, shape = stream
    count = batch * math.prod(shape)
    if kind == "normal":
        values = torch.from_numpy(keyed.normal(seed, name, count, step * count)).to(dtype)
    else:
        values = torch.from_numpy(keyed.integers(seed, name, count, step * count, kind))
    return values.reshape(batch, *shape)


def initialise(model, seed):
    covered = 0
    with torch.no_grad():
        for slot in model.slots():
            target = slot.view(slot.parameter)
            values = keyed.initial_value(seed, slot.name, target.numel())
            target.copy_(torch.from_numpy(values).reshape(target.shape))
            covered += target.numel()
    total = sum(p.numel() for p in model.parameters())
    assert covered == total, f"slots cover {covered} of {total} parameters"


def digest(seed, name, tensor):
    """Norm, sum, and elements at a few keyed positions of the row-major logical tensor."""
    values = tensor.detach().to(torch.float64).contiguous().flatten().numpy()
    drawn = keyed.integers(seed, "sample." + name, 4 * SAMPLES, 0, values.size)
    indices = sorted(dict.fromkeys(int(i) for i in drawn[:SAMPLES]))
    return {"l2": float(np.sqrt(np.sum(values * values))), "sum": float(np.sum(values)),
            "elements": [[i, float(values[i])] for i in indices]}


class Run:
    """Losses and tensors of a training run; tensors are flat float64 copies by logical name."""

    def __init__(self):
        self.losses, self.norms, self.initial, self.gradients = [], [], {}, {}
        self.after_first, self.after_last = {}, {}

    def digests(self, seed):
        return {
            "losses": self.losses, **({"gradient_norms": self.norms} if self.norms else {}),
            "gradients_step_1": digest_all(seed, self.gradients),
            "parameters_step_1": digest_all(seed, self.after_first),
            f"parameters_step_{STEPS}": digest_all(seed, self.after_last),
        }


def digest_all(seed, tensors):
    return {name: digest(seed, name, tensor) for name, tensor in tensors.items()}


def snapshot(slots, select):
    return {s.name: s.view(select(s.parameter)).detach().to(torch.float64).clone().contiguous()
            for s in slots}


def record_training(slots, optimizer, forward_backward, max_gradient_norm=None):
    """Runs STEPS steps; `forward_backward(step)` leaves gradients in place and returns the loss.

    The gradients recorded are those before clipping.
    """
    run = Run()
    run.initial = snapshot(slots, lambda p: p)
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        run.losses.append(forward_backward(step))
        if step == 0:
            run.gradients = snapshot(slots, lambda p: p.grad)
        if max_gradient_norm is not None:
            parameters = list({id(s.parameter): s.parameter for s in slots}.values())
            run.norms.append(
                torch.nn.utils.clip_grad_norm_(parameters, max_gradient_norm).item())
        optimizer.step()
        if step == 0:
            run.after_first = snapshot(slots, lambda p: p)
    run.after_last = snapshot(slots, lambda p: p)
    return run


def train(case, dtype, **model_arguments):
    """The single process."""
    model = case.model(dtype, **model_arguments)

    def forward_backward(step):
        inputs, targets = case.data(step, dtype)
        loss = case.loss_value(model(*inputs), targets)
        loss.backward()
        return loss.item()

    return record_training(model.slots(), case.optimizer(model), forward_backward,
                           case.max_gradient_norm)


def distance(run, other):
    """Relative L2 distance of gradients and last parameters; largest relative gap of a loss."""
    def of(tensors, others):
        return {name: float((tensors[name] - others[name]).norm() / others[name].norm())
                for name in others}

    return {"losses": max(abs(a - b) / abs(b) for a, b in zip(run.losses, other.losses)),
            "gradients_step_1": of(run.gradients, other.gradients),
            f"parameters_step_{STEPS}": of(run.after_last, other.after_last)}


def cases(seed=7):
    tokens = lambda name, bound, length: (name, bound, (length,))
    decoder = {"vocabulary": 61, "positions": 32, "hidden": 32, "heads": 4, "layers": 2,
               "norm_epsilon": 1e-5}
    llama = {**decoder, "key_value_heads": 2, "feed_forward": 48, "rotary_theta": 10000.0}
    pair = ({"inputs": 24, "hidden": 40, "outputs": 16}, 8, [("inputs", "normal", (24,))],
            ("targets", "normal", (16,)), "mean_squared_error")
    post_norm = {"vocabulary": 97, "hidden": 32, "heads": 4, "feed_forward": 64}
    entropy = "cross_entropy"
    decoder_data = ([tokens("tokens", 61, 16)], tokens("targets", 61, 16), entropy)
    return [
        Case("seed-mlp", seed, models.Mlp, {"inputs": 784, "hidden": 256, "outputs": 10}, 64,
             [("inputs", "normal", (784,))], ("targets", 10, ()), entropy),
        Case("seed-transformer", seed, models.SeedTransformer, {**post_norm, "layers": 2}, 8,
             [tokens("tokens", 97, 16)], tokens("targets", 97, 16), entropy),
        Case("seed-tensor-parallel", seed, models.LinearPair, *pair),
        Case("seed-tensor-parallel-adamw", seed, models.LinearPair, *pair, weight_decay=0.1),
        Case("seed-encoder-decoder", seed, models.EncoderDecoder,
             {**post_norm, "source_vocabulary": 97, "encoder_layers": 2, "decoder_layers": 2}, 8,
             [tokens("source", 97, 12), tokens("tokens", 97, 10)], tokens("targets", 97, 10),
             entropy),
        Case("gpt2", seed, models.Gpt2, {**decoder, "feed_forward": 128, "tied": True}, 8,
             *decoder_data),
        Case("llama-untied", seed, models.Llama, {**llama, "tied": False}, 8, *decoder_data),
        Case("llama-tied", seed, models.Llama, {**llama, "tied": True}, 8, *decoder_data),
        Case("gpt2-clipped", seed, models.Gpt2, {**decoder, "feed_forward": 128, "tied": True}, 8,
             *decoder_data, weight_decay=0.1, max_gradient_norm=MAX_GRADIENT_NORM),
    ]
