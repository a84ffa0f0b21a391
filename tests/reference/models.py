"""The reference models, built from PyTorch's and transformers' own layers, and the names of their
parameters in parplan.

`slots(model)` lists where each of parplan's logical parameters lies inside PyTorch's tensors:
packed query/key/value projections are taken apart, transposed storage is turned round. Shapes are
[output features, input features].
"""

import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass
class Slot:
    """A logical parameter: rows [begin, end) of `parameter`, columns if it is stored transposed."""
    name: str
    parameter: nn.Parameter
    begin: int = 0
    end: int | None = None
    transposed: bool = False

    def view(self, tensor):
        """The slot's part of `tensor`: the parameter itself or one shaped like it."""
        tensor = tensor.t() if self.transposed else tensor
        return tensor[self.begin:self.end]


def module_slots(prefix, module):
    found = [Slot(f"{prefix}.weight", module.weight)]
    if getattr(module, "bias", None) is not None:
        found.append(Slot(f"{prefix}.bias", module.bias))
    return found


def multihead_attention_slots(prefix, attention):
    width = attention.embed_dim
    found = []
    for i, part in enumerate(("query", "key", "value")):
        found.append(Slot(f"{prefix}.{part}.weight", attention.in_proj_weight, i * width,
                          (i + 1) * width))
        found.append(Slot(f"{prefix}.{part}.bias", attention.in_proj_bias, i * width,
                          (i + 1) * width))
    return found + module_slots(f"{prefix}.output", attention.out_proj)


def post_norm_layer_slots(prefix, layer):
    """nn.TransformerEncoderLayer or nn.TransformerDecoderLayer."""
    found = multihead_attention_slots(f"{prefix}.self_attention", layer.self_attn)
    found += module_slots(f"{prefix}.norm1", layer.norm1)
    if isinstance(layer, nn.TransformerDecoderLayer):
        found += multihead_attention_slots(f"{prefix}.cross_attention", layer.multihead_attn)
    found += module_slots(f"{prefix}.norm2", layer.norm2)
    found += module_slots(f"{prefix}.feed_forward.up", layer.linear1)
    found += module_slots(f"{prefix}.feed_forward.down", layer.linear2)
    if isinstance(layer, nn.TransformerDecoderLayer):
        found += module_slots(f"{prefix}.norm3", layer.norm3)
    return found


def token_cross_entropy(logits, targets):
    """Mean over all positions against targets given for each position (nothing is shifted)."""
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc1 = nn.Linear(config["inputs"], config["hidden"])
        self.fc2 = nn.Linear(config["hidden"], config["outputs"])

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))

    def slots(self):
        return module_slots("fc1", self.fc1) + module_slots("fc2", self.fc2)


class LinearPair(nn.Module):
    """What a column-parallel layer with gathered output and a row-parallel layer compute."""

    def __init__(self, config):
        super().__init__()
        self.column = nn.Linear(config["inputs"], config["hidden"])
        self.row = nn.Linear(config["hidden"], config["outputs"])

    def forward(self, x):
        return self.row(self.column(x))

    def slots(self):
        return module_slots("column", self.column) + module_slots("row", self.row)


class ContiguousGradient(torch.autograd.Function):
    """Identity. A decoder layer hands the gradient of its input on transposed in memory, and gloo
    sends contiguous tensors only, so a pipeline stage without embedding needs this at its entry."""

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return gradient.contiguous()


class SeedTransformer(nn.Module):
    """Layers [first, last) of the seed's transformer, with the embedding before layer 0 and the
    head behind the last one; by default the whole model."""

    def __init__(self, config, first=0, last=None):
        super().__init__()
        self.first = first
        last = config["layers"] if last is None else last
        width = config["hidden"]
        self.embedding = nn.Embedding(config["vocabulary"], width) if first == 0 else None
        self.layers = nn.ModuleList(
            nn.TransformerDecoderLayer(width, config["heads"], config["feed_forward"], dropout=0.0,
                                       batch_first=True) for _ in range(first, last))
        ends = last == config["layers"]
        self.final_norm = nn.LayerNorm(width) if ends else None
        self.head = nn.Linear(width, config["vocabulary"]) if ends else None

    def forward(self, x):
        x = ContiguousGradient.apply(x) if self.embedding is None else self.embedding(x)
        for layer in self.layers:
            x = layer(x, x)
        return x if self.head is None else self.head(self.final_norm(x))

    def slots(self):
        found = [] if self.embedding is None else module_slots("embedding", self.embedding)
        for i, layer in enumerate(self.layers):
            found += post_norm_layer_slots(f"layers.{self.first + i}", layer)
        if self.head is not None:
            found += module_slots("final_norm", self.final_norm) + module_slots("head", self.head)
        return found


class EncoderDecoder(nn.Module):
    """Every decoder layer attends to the encoder's final output; decoder self-attention is causal,
    the encoder has no mask, and neither has a norm behind its last layer."""

    def __init__(self, config):
        super().__init__()
        width, heads, inner = config["hidden"], config["heads"], config["feed_forward"]
        self.encoder_embedding = nn.Embedding(config["source_vocabulary"], width)
        self.encoder_layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, inner, dropout=0.0, batch_first=True)
            for _ in range(config["encoder_layers"]))
        self.decoder_embedding = nn.Embedding(config["vocabulary"], width)
        self.decoder_layers = nn.ModuleList(
            nn.TransformerDecoderLayer(width, heads, inner, dropout=0.0, batch_first=True)
            for _ in range(config["decoder_layers"]))
        self.head = nn.Linear(width, config["vocabulary"])

    def forward(self, source, tokens):
        memory = self.encoder_embedding(source)
        for layer in self.encoder_layers:
            memory = layer(memory)
        x = self.decoder_embedding(tokens)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], dtype=x.dtype)
        for layer in self.decoder_layers:
            x = layer(x, memory, tgt_mask=mask, tgt_is_causal=True)
        return self.head(x)

    def slots(self):
        found = module_slots("encoder.embedding", self.encoder_embedding)
        for i, layer in enumerate(self.encoder_layers):
            found += post_norm_layer_slots(f"encoder.layers.{i}", layer)
        found += module_slots("decoder.embedding", self.decoder_embedding)
        for i, layer in enumerate(self.decoder_layers):
            found += post_norm_layer_slots(f"decoder.layers.{i}", layer)
        return found + module_slots("head", self.head)


class Gpt2(nn.Module):
    """transformers' GPT2LMHeadModel; its projections store [input, output]."""

    def __init__(self, config):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel
        self.width = config["hidden"]
        self.model = GPT2LMHeadModel(
            GPT2Config(vocab_size=config["vocabulary"], n_positions=config["positions"],
                       n_embd=config["hidden"], n_layer=config["layers"], n_head=config["heads"],
                       n_inner=config["feed_forward"], activation_function="gelu_new",
                       layer_norm_epsilon=config["norm_epsilon"], resid_pdrop=0.0, embd_pdrop=0.0,
                       attn_pdrop=0.0, tie_word_embeddings=True, use_cache=False,
                       bos_token_id=0, eos_token_id=0))

    def forward(self, tokens):
        return self.model(input_ids=tokens).logits

    def slots(self):
        body = self.model.transformer
        assert self.model.lm_head.weight is body.wte.weight, "the embedding is not tied"
        found = module_slots("embedding", body.wte) + module_slots("position", body.wpe)
        for i, block in enumerate(body.h):
            prefix = f"layers.{i}"
            found += module_slots(f"{prefix}.norm1", block.ln_1)
            for j, part in enumerate(("query", "key", "value")):
                rows = (j * self.width, (j + 1) * self.width)
                found += self._projection(f"{prefix}.attention.{part}", block.attn.c_attn, *rows)
            found += self._projection(f"{prefix}.attention.output", block.attn.c_proj)
            found += module_slots(f"{prefix}.norm2", block.ln_2)
            found += self._projection(f"{prefix}.feed_forward.up", block.mlp.c_fc)
            found += self._projection(f"{prefix}.feed_forward.down", block.mlp.c_proj)
        return found + module_slots("final_norm", body.ln_f)

    @staticmethod
    def _projection(prefix, module, begin=0, end=None):
        return [Slot(f"{prefix}.weight", module.weight, begin, end, transposed=True),
                Slot(f"{prefix}.bias", module.bias, begin, end)]


class Float64Rotary(nn.Module):
    """Cosines and sines of transformers' default rotary embedding in the model's own precision."""

    def __init__(self, head_width, theta):
        super().__init__()
        self.head_width, self.theta = head_width, theta

    def forward(self, x, position_ids):
        exponents = torch.arange(0, self.head_width, 2, dtype=torch.float64) / self.head_width
        angles = position_ids[..., None].to(torch.float64) * self.theta**-exponents
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


class Llama(nn.Module):
    """transformers' LlamaForCausalLM.

    Its RMS norm and its rotary angles force float32 whatever the model's type, which would hide
    everything below 1e-7. `exact` replaces those two with torch.nn.RMSNorm and Float64Rotary.
    """

    def __init__(self, config, exact=True):
        super().__init__()
        from transformers import LlamaConfig, LlamaForCausalLM
        self.model = LlamaForCausalLM(
            LlamaConfig(vocab_size=config["vocabulary"], hidden_size=config["hidden"],
                        intermediate_size=config["feed_forward"],
                        num_hidden_layers=config["layers"], num_attention_heads=config["heads"],
                        num_key_value_heads=config["key_value_heads"], hidden_act="silu",
                        max_position_embeddings=config["positions"],
                        rms_norm_eps=config["norm_epsilon"],
                        rope_parameters={"rope_type": "default",
                                         "rope_theta": config["rotary_theta"]},
                        tie_word_embeddings=config["tied"], attention_dropout=0.0,
                        use_cache=False, bos_token_id=0, eos_token_id=0))
        if exact:
            self._replace_float32_parts(config)

    def _replace_float32_parts(self, config):
        body = self.model.model
        make_norm = lambda: nn.RMSNorm(config["hidden"], eps=config["norm_epsilon"])
        body.rotary_emb = Float64Rotary(config["hidden"] // config["heads"], config["rotary_theta"])
        body.norm = make_norm()
        for block in body.layers:
            block.input_layernorm, block.post_attention_layernorm = make_norm(), make_norm()

    def forward(self, tokens):
        return self.model(input_ids=tokens).logits

    def slots(self):
        body, head = self.model.model, self.model.lm_head
        found = module_slots("embedding", body.embed_tokens)
        for i, block in enumerate(body.layers):
            prefix = f"layers.{i}"
            found += module_slots(f"{prefix}.norm1", block.input_layernorm)
            for part, module in (("query", block.self_attn.q_proj), ("key", block.self_attn.k_proj),
                                 ("value", block.self_attn.v_proj),
                                 ("output", block.self_attn.o_proj)):
                found += module_slots(f"{prefix}.attention.{part}", module)
            found += module_slots(f"{prefix}.norm2", block.post_attention_layernorm)
            for part, module in (("gate", block.mlp.gate_proj), ("up", block.mlp.up_proj),
                                 ("down", block.mlp.down_proj)):
                found += module_slots(f"{prefix}.feed_forward.{part}", module)
        found += module_slots("final_norm", body.norm)
        if head.weight is body.embed_tokens.weight:
            return found
        return found + module_slots("head", head)
