"""The same training, elastic: srun --elastic=2:8 --gpus=2 python trainer.py"""
import espalier
BATCH, STEPS = 24, 400
run = espalier.join(global_batch=BATCH, steps=STEPS)  # before torch
import torch
from espalier.transformers import attach
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(1)
texts = torch.randint(0, 64, (1024, 1)) + torch.arange(32)  # each counts from somewhere
dataset = [{"input_ids": text, "labels": text} for text in texts]
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=64, n_positions=32, vocab_size=96))
arguments = TrainingArguments("out", max_steps=STEPS, per_device_train_batch_size=12,
                              learning_rate=1e-3, logging_steps=100, save_steps=200, use_cpu=True)
trainer = Trainer(model, arguments, train_dataset=dataset)
attach(run, trainer)
trainer.train()
