// Scores events with ONNX models and compares the answers with those of the Go library.
//
// Usage: node check.cjs list.json      needs the package onnxruntime-node

const fs = require('fs');
const ort = require('onnxruntime-node');

async function main() {
  const models = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
  const worst = {float64: 0, float32: 0};
  for (const c of models) {
    const session = await ort.InferenceSession.create(c.File);
    const feeds = {};
    for (const [name, values] of Object.entries(c.Categorical)) feeds[name] = new ort.Tensor('string', values, [values.length]);
    for (const [name, lists] of Object.entries(c.Multi)) {
      const width = Math.max(1, ...lists.map(l => l.length));
      const flat = lists.flatMap(l => [...l, ...Array(width - l.length).fill('')]);
      feeds[name] = new ort.Tensor('string', flat, [lists.length, width]);
    }
    for (const [name, values] of Object.entries(c.Numeric))
      feeds[name] = new ort.Tensor('float64', Float64Array.from(values, v => v === '+Inf' ? Infinity : Number(v)), [values.length]);
    const named = await session.run(feeds);
    const answers = Object.fromEntries(Object.entries(named).map(([name, t]) => [name.replace(/_+$/, ''), t]));
    if (c.Refused) {
      if (![...answers.outputs.data].every(v => Number.isNaN(v))) throw new Error(`${c.Name}: ${answers.outputs.data}, want NaN`);
      continue;
    }
    const compare = (name, want) => {
      const got = answers[name].data, flat = want.flat(), kind = c.Name.split(' ').at(-1);
      if (got.length !== flat.length) throw new Error(`${c.Name}: ${name} has ${got.length} numbers, want ${flat.length}`);
      flat.forEach((w, i) => {
        const error = Math.abs(got[i] - w) / (1 + Math.abs(w));
        if (!(error <= c.Tolerance)) throw new Error(`${c.Name}: ${name}[${i}] is ${got[i]}, want ${w}`);
        worst[kind] = Math.max(worst[kind], error);
      });
    };
    compare('outputs', c.Outputs);
    if (c.Probabilities) compare('probabilities', c.Probabilities);
    if (c.Task === 'regression' || c.Task === 'ordinal') compare('prediction', c.Prediction);
    if (c.Task === 'multiclass') c.Prediction.forEach((want, i) => {
      const [first, second] = [...c.Outputs[i]].sort((a, b) => b - a);
      if (first - second >= 1e-3 && answers.prediction.data[i] !== want) throw new Error(`${c.Name}: event ${i} is ${answers.prediction.data[i]}, want ${want}`);
    });
  }
  console.log(`onnxruntime-node ${require('onnxruntime-node/package.json').version}: ${models.length} models agree, largest error relative to 1+|o|: ` +
    `float64 ${worst.float64.toExponential(1)}, float32 ${worst.float32.toExponential(1)}`);
}

main().catch(e => { console.error(e); process.exit(1); });
