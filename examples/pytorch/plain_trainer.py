"""A plain training with Hugging Face's Trainer: torchrun --nproc-per-node=2 plain_trainer.py"""
import os
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

BATCH, STEPS = 24, 400
torch.manual_seed(1)
texts = torch.randint(0, 64, (1024, 1)) + torch.arange(32)  # each counts from somewhere
dataset = [{"input_ids": text, "labels": text} for text in texts]
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=64, n_positions=32, vocab_size=96))
arguments = TrainingArguments("out", max_steps=STEPS, per_device_train_batch_size=BATCH // int(os.environ.get("WORLD_SIZE", "1")),
                              learning_rate=1e-3, logging_steps=100, save_steps=200, use_cpu=True)
trainer = Trainer(model, arguments, train_dataset=dataset)
trainer.train()
