"""A training as programs for Accelerate are written; it knows nothing of Penny."""

from accelerate import Accelerator

import torch

torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
samples = torch.randn(256, 8)
data = torch.utils.data.TensorDataset(samples, samples.sum(1, keepdim=True))
model, optimizer, loader = accelerator.prepare(
    model, optimizer, torch.utils.data.DataLoader(data, batch_size=16)
)
for _ in range(2):
    for inputs, wanted in loader:
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
losses = accelerator.gather(loss.detach().reshape(1))
names = accelerator.gather_for_metrics([accelerator.process_index], use_gather_object=True)
accelerator.wait_for_everyone()
accelerator.print(f"losses {losses.tolist()} of ranks {names}")
accelerator.print("groups of", type(torch.distributed.group.WORLD).__module__)
accelerator.end_training()
