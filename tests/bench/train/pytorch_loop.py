"""The other side of the comparison: a GPT-2 or LLaMA of `transformers` trained in PyTorch's eager mode, or with each layer
compiled by torch.compile, with what a careful user would set: SDPA attention, fused AdamW, gradients set to None. One JSON object on the command line; for each line on stdin it trains
that many steps and prints their seconds and the process's CPU seconds for all of them, as JSON.
"""
import json
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

setting = json.loads(sys.argv[1])
device = torch.device(setting["device"])
torch.set_num_threads(setting["threads"])
torch.manual_seed(1)
sequence, vocabulary = setting["sequence"], setting["vocabulary"]
with device:
    if setting.get("family", "gpt2") == "gpt2":
        model = GPT2LMHeadModel(GPT2Config(
            n_layer=setting["layers"], n_embd=setting["hidden"], n_head=setting["heads"], n_positions=sequence,
            vocab_size=vocabulary, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=None,
            eos_token_id=None, attn_implementation="sdpa"))
        layers = model.transformer.h
    else:
        model = LlamaForCausalLM(LlamaConfig(
            num_hidden_layers=setting["layers"], hidden_size=setting["hidden"], num_attention_heads=setting["heads"],
            num_key_value_heads=setting["key_value_heads"], intermediate_size=setting["intermediate"],
            max_position_embeddings=sequence, vocab_size=vocabulary, use_cache=False, bos_token_id=None, eos_token_id=None,
            tie_word_embeddings=False, attn_implementation="sdpa"))
        layers = model.model.layers
model.train()
if setting.get("compile"):
    for layer in layers:  # all alike: compiled once
        layer.compile()
matrices = [p for p in model.parameters() if p.dim() > 1]
others = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                              lr=1e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
data = torch.frombuffer(bytearray(open(setting["data"], "rb").read()), dtype=torch.uint16).to(torch.int64)
samples = (len(data) - 1) // sequence
micro_batches = setting["micro_batches"]
share = setting["global_batch"] // micro_batches
half = setting["dtype"] == "bfloat16"  # float32 weights under autocast: PyTorch's own mixed precision


def step(number):
    for m in range(micro_batches):
        first = (number * micro_batches + m) * share % (samples - share)
        tokens = data[first * sequence:(first + share) * sequence].view(share, sequence).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            loss = model(input_ids=tokens, labels=tokens).loss / micro_batches
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()  # waits for the device


number = 0
for line in sys.stdin:
    if device.type == "cuda" and number > 0:
        step(number)  # its memory comes back
        number += 1
    times, cpu = [], time.process_time()
    for _ in range(int(line)):
        begin = time.perf_counter()
        step(number)
        times.append(time.perf_counter() - begin)
        number += 1
    if device.type == "cuda":
        torch.cuda.empty_cache()  # for the other side's turn
    print(json.dumps({"seconds": times, "cpu_seconds": time.process_time() - cpu}), flush=True)
