"""A training as programs for Lightning are written; it knows nothing of Penny."""

import lightning

import torch


class Regression(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))

    def training_step(self, batch, index):
        inputs, wanted = batch
        loss = torch.nn.functional.mse_loss(self.layers(inputs), wanted)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


if __name__ == "__main__":
    lightning.seed_everything(0)
    samples = torch.randn(256, 8)
    data = torch.utils.data.TensorDataset(samples, samples.sum(1, keepdim=True))
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Regression(), torch.utils.data.DataLoader(data, batch_size=16))
    if trainer.is_global_zero:
        print("losses", [trainer.callback_metrics["loss"].item()])
        print("groups of", type(torch.distributed.group.WORLD).__module__)
