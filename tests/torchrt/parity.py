"""PyTorch's side of the parity tests: the same model by `transformers`, the same tokens, optimizer and schedule.

parity.py prepare FAMILY...            a folder each: a tiny model with random weights, files of tokens, a configuration of
                                       ours, and from 20 steps in PyTorch losses, gradients and logits
parity.py losses FOLDER METRICS...     fail when ours differ: losses, gradients in a checkpoint of step 1,
parity.py gradients FOLDER CHECKPOINT... logits of exported weights. Several pairs in one run: it takes seconds to load.
parity.py logits FOLDER EXPORTED...
parity.py unchanged FOLDER EXPORTED...
"""

import json
import math
import os
import re
import sys

if sys.argv[1:2] != ["losses"]:  # needs none of them, and they take seconds to load
    import torch
    import transformers
    from safetensors.torch import load_file, save_file
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)

STEPS, BATCH, SEQUENCE, VOCABULARY, SEED = 20, 8, 48, 301, 7
RATE, LEAST_RATE, WARMUP, DECAY, BETAS, EPSILON, CLIP = 5e-3, 5e-4, 5, 0.1, (0.9, 0.95), 1e-8, 1.0

GPT2 = dict(vocab_size=VOCABULARY, n_positions=64, n_embd=64, n_layer=4, n_head=4, embd_pdrop=0, resid_pdrop=0,
            attn_pdrop=0)
GATED = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=160, num_hidden_layers=4, num_attention_heads=8,
             num_key_value_heads=4, max_position_embeddings=64, rms_norm_eps=1e-5)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)

# GPT-2 stores these transposed.
CONVOLUTION = re.compile(r"\.(c_attn|c_proj|c_fc)\.weight$")

FAMILIES = {
    "gpt2": lambda: transformers.GPT2Config(**GPT2),
    "llama": lambda: transformers.LlamaConfig(**GATED, rope_parameters=LLAMA3),
    "qwen2": lambda: transformers.Qwen2Config(**GATED, tie_word_embeddings=True),
    # What the others leave out: the exact GELU, another width; biases everywhere, linear stretching, large heads.
    "gpt2-gelu": lambda: transformers.GPT2Config(**GPT2, activation_function="gelu", n_inner=96),
    "llama-bias": lambda: transformers.LlamaConfig(
        **GATED, attention_bias=True, mlp_bias=True, head_dim=16, tie_word_embeddings=True,
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0)),
}

CONFIGURATION = f"""[model]
config = "model/config.json"
sequence = {SEQUENCE}
weights = "model"
[training]
steps = {STEPS}
global_batch = {BATCH}
micro_batches = 4
seed = {SEED}
learning_rate = {RATE}
minimum_learning_rate = {LEAST_RATE}
warmup_steps = {WARMUP}
weight_decay = {DECAY}
beta1 = {BETAS[0]}
beta2 = {BETAS[1]}
epsilon = {EPSILON}
clip_norm = {CLIP}
[data]
path = "tokens.bin"
validation = "held.bin"
validation_samples = {BATCH}
[metrics]
progress_every = 0
"""


def mix(*values):
    """random.hpp: splitmix64's finalizer, of several values."""
    result = None
    for x in values:
        x = x if result is None else result ^ x
        x = (x + 0x9E3779B97F4A7C15) % 2**64
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
        result = x ^ (x >> 31)
    return result


def piece(sample, pieces):
    """data_order.cpp: which piece of the file a sample of the training is."""
    epoch, value = divmod(sample, pieces)
    half = 1
    while half < 31 and 1 << (2 * half) < pieces:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = value >> half, value & mask
        for turn in range(4):
            left, right = right, left ^ (mix(mix(SEED, epoch * 4 + turn), right) & mask)
        value = left << half | right
        if value < pieces:
            return value


def samples(folder, name, first, count):
    """Inputs and targets of samples [first, first + count) of the training."""
    tokens = torch.frombuffer(bytearray(open(f"{folder}/{name}", "rb").read()), dtype=torch.int16).long()
    pieces = (len(tokens) - 1) // SEQUENCE
    starts = [piece(sample, pieces) * SEQUENCE for sample in range(first, first + count)]
    rows = torch.stack([tokens[start:start + SEQUENCE + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


def mean_loss(model, inputs, targets):
    logits = model(inputs).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def learning_rate(step):
    if step <= WARMUP:
        return RATE * step / WARMUP
    progress = (step - WARMUP) / (STEPS - WARMUP)
    return LEAST_RATE + (RATE - LEAST_RATE) * 0.5 * (1 + math.cos(math.pi * progress))


def make(family, folder):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(FAMILIES[family]())
    with torch.no_grad():  # norms and biases start as ones and zeros: mistakes in them would not show
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    model.save_pretrained(f"{folder}/model")
    # Text with structure: each token follows from the one before it in one of three ways.
    generator = torch.Generator().manual_seed(2)
    for name, count in (("tokens.bin", 200 * SEQUENCE + 1), ("held.bin", 20 * SEQUENCE + 1)):
        tokens = [0]
        for choice in torch.randint(3, (count - 1,), generator=generator).tolist():
            tokens.append((tokens[-1] * 5 + (1, 17, 90)[choice]) % VOCABULARY)
        open(f"{folder}/{name}", "wb").write(torch.tensor(tokens, dtype=torch.int16).numpy().tobytes())
    open(f"{folder}/train.toml", "w").write(CONFIGURATION)


def load(path):
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).train()


def train(folder):
    model = load(f"{folder}/model")
    decaying = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([dict(params=decaying, weight_decay=DECAY), dict(params=others, weight_decay=0.0)],
                                  betas=BETAS, eps=EPSILON)
    losses = []
    for step in range(1, STEPS + 1):
        loss = mean_loss(model, *samples(folder, "tokens.bin", (step - 1) * BATCH, BATCH))
        optimizer.zero_grad()
        loss.backward()
        if step == 1:
            save_file({name: p.grad.clone() for name, p in model.named_parameters()}, f"{folder}/gradients.safetensors")
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        optimizer.step()
        losses.append(loss.item())
    json.dump(losses, open(f"{folder}/losses.json", "w"))
    with torch.no_grad():
        held = samples(folder, "held.bin", 0, BATCH)
        save_file({"logits": model(held[0]).logits}, f"{folder}/logits.safetensors")


def prepare(*families):
    for family in families:
        make(family, family)
        train(family)


def stored(checkpoint, kind):
    """One kind of state of all tensors of a checkpoint, whole, as Hugging Face has them."""
    files, result = {}, {}
    for name, tensor in json.load(open(f"{checkpoint}/manifest.json"))["tensors"].items():
        whole = torch.full(tensor["shape"], math.nan).flatten()
        width = tensor["shape"][1] if len(tensor["shape"]) > 1 else 1
        for part in tensor[kind]:
            if part["file"] not in files:
                files[part["file"]] = load_file(f"{checkpoint}/{part['file']}")
            rows = torch.cat([torch.arange(first, first + count) for first, count in part["rows"]])
            columns = torch.arange(part["columns"][0], sum(part["columns"]))
            places = (rows[:, None] * width + columns).flatten()
            whole[places[part["elements"][0]:sum(part["elements"])]] = files[part["file"]][part["key"]].flatten()
        whole = whole.view(tensor["shape"])
        result[name] = whole.t() if CONVOLUTION.search(name) else whole
    return result


def fail(text):
    sys.exit(f"{text}")


def losses(folder, metrics):
    """Of ours against PyTorch's, each step's within 1e-5."""
    theirs = json.load(open(f"{folder}/losses.json"))
    records = [json.loads(line) for line in open(f"{folder}/{metrics}")]
    ours = [record["loss"] for record in records if "loss" in record]
    if len(ours) != STEPS or theirs[-1] > theirs[0] - 0.1:
        fail(f"{len(ours)} steps, PyTorch's loss goes from {theirs[0]} to {theirs[-1]}")
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
    print(f"largest relative difference of a loss: {worst:.2g}")
    if not worst <= 1e-5:
        fail(f"ours {ours}, PyTorch's {theirs}")


def gradients(folder, checkpoint):
    """With beta1 = 0 the first moment after step 1 is the gradient. Relative to each tensor's largest, within 1e-4."""
    theirs, ours = load_file(f"{folder}/gradients.safetensors"), stored(f"{folder}/{checkpoint}", "first_moment")
    if set(theirs) != set(ours):
        fail(f"tensors that only one side has: {set(theirs) ^ set(ours)}")
    worst = 0.0
    for name, gradient in theirs.items():
        difference = ((ours[name] - gradient).abs().max() / gradient.abs().max()).item()
        if not difference <= 1e-4:
            fail(f"gradient of {name} differs by {difference}")
        worst = max(worst, difference)
    print(f"largest relative difference of a gradient: {worst:.2g}")


def logits(folder, exported):
    """Weights that we trained and wrote, in `transformers`, against PyTorch's own after the same training."""
    with torch.no_grad():
        ours = load(f"{folder}/{exported}")(samples(folder, "held.bin", 0, BATCH)[0]).logits
    theirs = load_file(f"{folder}/logits.safetensors")["logits"]
    difference = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    print(f"largest relative difference of a logit: {difference:.2g}")
    if not difference <= 1e-3:
        fail(f"logits differ by {difference}")


def unchanged(folder, exported):
    """Weights that we read and wrote untouched give the same logits bit for bit."""
    inputs = samples(folder, "held.bin", 0, BATCH)[0]
    with torch.no_grad():
        if not torch.equal(load(f"{folder}/{exported}")(inputs).logits, load(f"{folder}/model")(inputs).logits):
            fail("logits changed")
    print("the same logits")


def main():
    command, *arguments = sys.argv[1:]
    if command == "prepare":
        return prepare(*arguments)
    if not arguments or len(arguments) % 2:
        fail("parity.py: FOLDER and what is in it, in pairs")
    for folder, ours in zip(arguments[::2], arguments[1::2]):
        print(f"{folder}/{ours}: ", end="")
        globals()[command](folder, ours)


if __name__ == "__main__":
    main()
