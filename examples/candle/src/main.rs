//! Batches of Feedline as tensors of candle.
//!
//! ```sh
//! cargo run --manifest-path examples/candle/Cargo.toml
//! ```
//!
//! The workers write every image into its row of the batch, so a field is one slice, already in the order a
//! tensor has; candle copies it once, to wherever its device keeps tensors. Then the batch can be dropped,
//! and its memory takes the next images.

use candle_core::{Device, Tensor, Var, WithDType};
use feedline::{Batch, BoxError, Element, Field, Layout, LayoutError, RowMut, Rows, SampleRng, Spec};

const CLASSES: usize = 10;
const SIDE: usize = 16;

/// Noise in the place of images, with a bright line whose height is the class.
struct Noise;

impl Rows for Noise {
    fn layout(&self) -> Result<Layout, LayoutError> {
        let image = Field::fixed::<f32>("image", [3, SIDE, SIDE]);
        Layout::new([image, Field::fixed::<i64>("label", [])])
    }

    fn len(&self) -> usize {
        500
    }

    fn write(&self, index: usize, rng: &mut SampleRng, row: &mut RowMut<'_>) -> Result<(), BoxError> {
        let class = index % CLASSES;
        let image = row.slice_mut::<f32>("image")?;
        image.fill_with(|| rng.uniform() as f32 - 0.5);
        // The same line in each of the three channels.
        for line in image.chunks_exact_mut(SIDE).skip(class).step_by(SIDE) {
            line.fill(1.0);
        }
        row.write("label", &[class as i64])?;
        Ok(())
    }
}

/// A field of a batch as a tensor. The type is the one the layout gives the field.
fn tensor<T: Element + WithDType>(batch: &Batch, field: &str, device: &Device) -> Result<Tensor, BoxError> {
    Ok(Tensor::from_slice(batch.slice::<T>(field)?, batch.shape(field)?, device)?)
}

/// One step of gradient descent for a linear model; gives the loss of the batch.
fn learn(weights: &Var, images: &Tensor, labels: &Tensor) -> candle_core::Result<f32> {
    let scores = images.flatten_from(1)?.matmul(weights)?;
    let right = scores.gather(&labels.unsqueeze(1)?, 1)?.squeeze(1)?;
    let loss = (scores.log_sum_exp(1)? - right)?.mean_all()?;
    if let Some(gradient) = loss.backward()?.get(weights) {
        weights.set(&(weights.as_tensor() - (gradient * 0.01)?)?)?;
    }
    loss.to_scalar()
}

fn main() -> Result<(), BoxError> {
    let device = Device::Cpu;
    let weights = Var::zeros((3 * SIDE * SIDE, CLASSES), candle_core::DType::F32, &device)?;
    let mut loader = Spec::rows(Noise).batch_size(64).shuffle(true).workers(2).build()?;
    for batch in loader.epoch() {
        let batch = batch?;
        let images = tensor::<f32>(&batch, "image", &device)?;
        let labels = tensor::<i64>(&batch, "label", &device)?;
        let loss = learn(&weights, &images, &labels)?;
        println!("images {:?}, labels {:?}, loss {loss:.4}", images.shape(), labels.shape());
    }
    Ok(())
}
