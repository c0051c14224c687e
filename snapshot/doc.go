// Package snapshot is the format in which refitd publishes models, the store that holds their versions, and the scorer for programs that use
// them. It needs the standard library only: no Kafka, no Badger, no metrics.
//
// A program that scores opens the version that an alias names, once, and keeps the model:
//
//	m, err := snapshot.Open("snapshots", "ratings", snapshot.Selector{Alias: snapshot.Champion}) // verified and self-tested
//	...
//	in, err := m.Schema().InputFromMap(map[string]any{"user": "196", "item": "242"})
//	...
//	p, err := m.Predict(&in) // p.Value, p.Classes, p.Probabilities, p.Unseen
//
// On the hot path, fill an Input by hand and call Score with a Scratch of your own: nothing is allocated. A Model never changes, so
// a newer version is another Model; swap a pointer to it.
//
// # Model
//
// With the columns x of an event (see Schema), the m outputs are
//
//	o(x)_c = Σ_r V[r,c] K(h_r, x) + Σ_j w[j,c] x_j + b_c
//	K(h, x) = Σ_{i<j} h_i x_i h_j x_j   (anova)    or   ⟨h, x⟩²   (homogeneous)
//
// (Blondel, Niculae, Otsuka and Ueda 2017), and the link of the manifest turns them into a prediction. Names that the vocabulary does
// not have contribute nothing and are reported; missing fields contribute nothing.
//
// # Files
//
//	<store>/<model>/<version>/manifest.json      shape, schema, origin, metrics, size and SHA-256 of the other files; written last
//	<store>/<model>/<version>/model.safetensors  F64 tensors: basis d×k, weights k×m, linear d×m if there is one, bias m
//	<store>/<model>/<version>/vocabulary         a line ["field","name"] for each column that has a name, in column order
//	<store>/<model>/<version>/golden.jsonl       a line {"event":{…},"outputs":[…],"prediction":…} for each event of the self-test
//	<store>/<model>/aliases/<alias>              {"version":7,"manifest_digest":"sha256:…"}
//	<store>/<model>/.lock, .staging-*            writers only
//
// Versions are integers that grow by one and are never rewritten; directories appear by a rename and aliases are replaced by one, each after
// fsync. The manifest ends in the digest of its own bytes, and an alias pins that digest, so any altered bit of a version is noticed; against
// somebody who alters files and digests together only a signature helps, which this format does not have yet. model.safetensors is
// a plain safetensors file that other languages read; this package takes only the one header that belongs to the shape in the manifest.
// testdata/score.py is a scorer in Python that reads every file.
//
// # Promise
//
// Format 1 stays readable by every later build. A writer may add fields to the manifest outside its schema without a new format number;
// anything that changes scores, or the last line of the manifest, gets one, and a build that does not know it says so (ErrFormat). The
// version in testdata/v1 is read by the tests of every build and never written again.
//
// # History
//
//	1  first format
package snapshot
