"""A training as programs for the Trainer of transformers are written; it knows nothing of Penny."""

import sys
import tempfile

from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

import torch

set_seed(0)
config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
)
tokens = torch.randint(0, 64, (64, 16))
data = [{"input_ids": row, "labels": row} for row in tokens]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        use_cpu=True,
        ddp_backend="gloo",
        per_device_train_batch_size=4,
        max_steps=6,
        logging_steps=2,
        learning_rate=1e-3,
        report_to=[],
        save_strategy="no",
        eval_strategy="steps",
        eval_steps=6,
        disable_tqdm=True,
    )
    trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=data, eval_dataset=data)
    trainer.train()
    if trainer.is_world_process_zero():
        told = [
            entry[key] for entry in trainer.state.log_history for key in ("loss", "eval_loss") if key in entry
        ]
        print("losses", told, file=sys.stdout)
        print("groups of", type(torch.distributed.group.WORLD).__module__)
torch.distributed.destroy_process_group()
