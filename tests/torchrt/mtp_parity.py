"""PyTorch's side of the tests of multi-token prediction: a small LLaMA with MTP modules as DeepSeek-V3 describes them
(technical report, section 2.2), written without regard to how espalier-train does it.

mtp_parity.py prepare FOLDER DEPTHS [tied]      a model with random weights, tokens, a configuration of ours, and from
                                                PyTorch the losses of 20 steps and the gradients of step 1
mtp_parity.py losses FOLDER METRICS             fail when ours differ: the model's own losses and the modules' mean
mtp_parity.py gradients FOLDER CHECKPOINT       the same of every gradient, from a checkpoint of step 1 with beta1 = 0
mtp_parity.py exported FOLDER EXPORTED          the exported weights are the trained ones: PyTorch's after 20 steps
"""

import json
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

command = sys.argv[1]
sys.argv[1] = "losses"  # parity.py then leaves transformers alone
import parity  # noqa: E402

parity.torch, parity.load_file = torch, load_file
torch.set_num_threads(1)

LAYERS, HIDDEN, INNER, HEADS, KEYS, EPSILON, THETA, WEIGHT = 3, 64, 160, 8, 4, 1e-5, 10000.0, 0.4
SIZE = HIDDEN // HEADS


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * self.weight


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


def turn(x):
    """Rotary positions, of [samples, heads, tokens, size]."""
    places = torch.arange(x.shape[2], dtype=torch.float32)
    angles = torch.outer(places, THETA ** (-torch.arange(0, SIZE, 2, dtype=torch.float32) / SIZE)).repeat(1, 2)
    left, right = x.chunk(2, -1)
    return x * angles.cos() + torch.cat((-right, left), -1) * angles.sin()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = linear(HIDDEN, HIDDEN), linear(HIDDEN, HIDDEN)
        self.k_proj, self.v_proj = linear(HIDDEN, KEYS * SIZE), linear(HIDDEN, KEYS * SIZE)

    def forward(self, x):
        samples, tokens, _ = x.shape
        q, k, v = (project(x).view(samples, tokens, -1, SIZE).transpose(1, 2)
                   for project in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (t.repeat_interleave(HEADS // KEYS, 1) for t in (turn(k), v))
        mixed = functional.scaled_dot_product_attention(turn(q), k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(samples, tokens, HIDDEN))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(HIDDEN, INNER), linear(HIDDEN, INNER), linear(INNER, HIDDEN)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(), Norm()
        self.self_attn, self.mlp = Attention(), FeedForward()

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class SharedHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm()


class Module(Layer):
    """Eq. 21 and 22. The columns of eh_proj for the embedding come first, as in DeepSeek-V3's files."""

    def __init__(self):
        super().__init__()
        self.enorm, self.hnorm, self.eh_proj, self.shared_head = Norm(), Norm(), linear(2 * HIDDEN, HIDDEN), SharedHead()

    def forward(self, state, embeddings):
        return super().forward(self.eh_proj(torch.cat((self.enorm(embeddings), self.hnorm(state)), -1)))


class Inner(nn.Module):
    def __init__(self, depths):
        super().__init__()
        self.embed_tokens, self.norm = nn.Embedding(parity.VOCABULARY, HIDDEN), Norm()
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)] + [Module() for _ in range(depths)])


class Model(nn.Module):
    def __init__(self, depths, tied):
        super().__init__()
        self.model, self.lm_head = Inner(depths), linear(HIDDEN, parity.VOCABULARY)
        if tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def losses(self, inputs, targets):
        """The model's own and each depth's (eq. 24: divided by all tokens of a sample)."""
        tokens = torch.cat((inputs, targets[:, -1:]), 1)  # t_0 to t_T
        state = self.model.embed_tokens(inputs)
        for layer in self.model.layers[:LAYERS]:
            state = layer(state)
        result = [self.cross_entropy(self.model.norm(state), targets)]
        for depth, module in enumerate(self.model.layers[LAYERS:], 1):
            count = inputs.shape[1] - depth  # positions whose token `depth` + 1 ahead is in the sample
            state = module(state[:, :count], self.model.embed_tokens(tokens[:, depth:depth + count]))
            result.append(self.cross_entropy(module.shared_head.norm(state), tokens[:, depth + 1:]))
        return result

    def cross_entropy(self, state, wanted):
        total = functional.cross_entropy(self.lm_head(state).flatten(0, 1), wanted.flatten(), reduction="sum")
        return total / (wanted.shape[0] * parity.SEQUENCE)


def prepare(folder, depths, tied):
    os.makedirs(f"{folder}/model", exist_ok=True)
    torch.manual_seed(1)
    model = Model(depths, tied)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_((1.0 if "norm" in name else 0.0) + 0.05 * torch.randn_like(parameter))
    weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    save_file(weights, f"{folder}/model/model.safetensors", {"format": "pt"})
    json.dump(dict(model_type="llama", num_hidden_layers=LAYERS, num_nextn_predict_layers=depths, hidden_size=HIDDEN,
                   intermediate_size=INNER, num_attention_heads=HEADS, num_key_value_heads=KEYS, rms_norm_eps=EPSILON,
                   max_position_embeddings=64, vocab_size=parity.VOCABULARY, rope_theta=THETA, tie_word_embeddings=tied),
              open(f"{folder}/model/config.json", "w"))
    generator = torch.Generator().manual_seed(2)
    for name, count in (("tokens.bin", 200 * parity.SEQUENCE + 1), ("held.bin", 20 * parity.SEQUENCE + 1)):
        tokens = [0]
        for choice in torch.randint(3, (count - 1,), generator=generator).tolist():
            tokens.append((tokens[-1] * 5 + (1, 17, 90)[choice]) % parity.VOCABULARY)
        open(f"{folder}/{name}", "wb").write(torch.tensor(tokens, dtype=torch.int16).numpy().tobytes())
    configuration = parity.CONFIGURATION.replace('weights = "model"', f'weights = "model"\nmtp_weight = {WEIGHT}')
    open(f"{folder}/train.toml", "w").write(configuration)
    train(folder, model, depths)


def train(folder, model, depths):
    decaying = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [dict(params=decaying, weight_decay=parity.DECAY), dict(params=others, weight_decay=0.0)],
        betas=parity.BETAS, eps=parity.EPSILON)
    records = []
    for step in range(1, parity.STEPS + 1):
        own, *ahead = model.losses(*parity.samples(folder, "tokens.bin", (step - 1) * parity.BATCH, parity.BATCH))
        mean = sum(ahead) / depths
        optimizer.zero_grad()
        (own + WEIGHT * mean).backward()
        if step == 1:
            save_file({name: p.grad.clone() for name, p in model.named_parameters()}, f"{folder}/gradients.safetensors")
        nn.utils.clip_grad_norm_(model.parameters(), parity.CLIP)
        for group in optimizer.param_groups:
            group["lr"] = parity.learning_rate(step)
        optimizer.step()
        records.append(dict(loss=own.item(), mtp_loss=mean.item()))
    json.dump(records, open(f"{folder}/losses.json", "w"))
    save_file({name: p.detach().clone() for name, p in model.named_parameters()}, f"{folder}/trained.safetensors")


def losses(folder, metrics):
    """Each within 1e-5, and PyTorch's have learnt something."""
    theirs = json.load(open(f"{folder}/losses.json"))
    ours = [record for record in map(json.loads, open(f"{folder}/{metrics}")) if "loss" in record]
    for key in ("loss", "mtp_loss"):
        if len(ours) != parity.STEPS or theirs[-1][key] > theirs[0][key] - 0.1:
            parity.fail(f"{len(ours)} steps, PyTorch's {key} goes from {theirs[0][key]} to {theirs[-1][key]}")
        worst = max(abs(a[key] - b[key]) / b[key] for a, b in zip(ours, theirs))
        print(f"largest relative difference of {key}: {worst:.2g}")
        if not worst <= 1e-5:
            parity.fail(f"{key}: ours {[a[key] for a in ours]}, PyTorch's {[b[key] for b in theirs]}")


def exported(folder, ours):
    theirs, ours = load_file(f"{folder}/trained.safetensors"), load_file(f"{folder}/{ours}/model.safetensors")
    if set(theirs) != set(ours):
        parity.fail(f"tensors that only one side has: {set(theirs) ^ set(ours)}")
    worst = max(((ours[name] - value).abs().max() / value.abs().max()).item() for name, value in theirs.items())
    print(f"largest relative difference of a weight: {worst:.2g}")
    if not worst <= 1e-3:
        parity.fail("weights differ")


if __name__ == "__main__":
    folder, what = sys.argv[2:4]
    if command == "prepare":
        prepare(folder, int(what), "tied" in sys.argv[4:])
    else:
        {"losses": losses, "gradients": parity.gradients, "exported": exported}[command](folder, what)
