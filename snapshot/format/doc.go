// Package format has what goes into the files of a version and comes out of them: events, schema, contents, manifest,
// aliases, signatures and deltas, with their bytes. Package snapshot is what programs that use versions import, package
// publish what writes them.
//
// It opens no file and asks no clock: bytes in, values out. It neither scores, as package scorer does, nor decides what
// is trusted, as package verify does. Values are plain; they are read by any number of goroutines, and changed by none
// once they are encoded, published or given to a model.
//
//	contents.go    Contents: parameters, vocabulary and golden events, as they are trained; their limits
//	schema.go      Schema: fields, task, crosses, weights of lists; featuremap.go and foldin.go: its larger parts
//	manifest.go    Manifest: metrics, cut, digests, its one form in bytes; form.go: older manifests; cut.go: large cuts
//	tensors.go     model.safetensors; vocabulary.go the names; cochoices.go which of them are chosen together
//	trees.go       Trees: rules of if and else
//	tables.go      Table: what is known of entities; tablerow.go: rows that deltas have changed
//	input.go       Input, LabelledEvent, Query, Item: what a model is asked; answer has what it answers
//	keys.go        Keys, Signer, signatures of manifests; pointer has aliases, and until when they may be used
//	delta.go       Delta: its frame is encoded; deltaread.go: and decoded
//
// # Model
//
// With the columns x of an event (see Schema), the m outputs are
//
//	o(x)_c = Σ_r V[r,c] K(h_r, x) + Σ_j w[j,c] x_j + Σ_j u[j,c] φ_j(x) + Σ_t L_t[leaf_t(x),c] + b_c
//	K(h, x) = Σ_{i<j} h_i x_i h_j x_j   (anova)    or   ⟨h, x⟩²   (homogeneous), or
//	          Σ_{i<j<l} h_i x_i h_j x_j h_l x_l         or   ⟨h, x⟩³   where the degree in the manifest is 3
//
// (Blondel, Niculae, Otsuka and Ueda 2017), where φ are the columns of the schema's FeatureMap and L_t the leaves of
// Trees, if it has them, and the link of the manifest turns outputs into a prediction. Names that the vocabulary does
// not have are counted by Score and named by Predict and Explain. They contribute nothing, but for trees that ask for
// them. So do fields that an event lacks, which Predict and Explain name; where the schema says which fields are
// optional (Schema.Optional), an event that lacks another one is refused with ErrInput.
//
// # Files
//
//	<store>/<model>/<version>/manifest.json      shape, schema, origin, metrics, size and SHA-256 of the other files; written last
//	<store>/<model>/<version>/manifest.sig       {"key_id":…,"algorithm":"ed25519","signature":…} over the bytes of manifest.json, if signed
//	<store>/<model>/<version>/cut.json           where the events behind the version end, if that has no room in the manifest; Watch does not read it
//	<store>/<model>/<version>/model.sig          OpenSSF Model Signing bundle over all other files but deltas, if asked for; not read here
//	<store>/<model>/<version>/model.safetensors  F64 or F32 tensors: basis d×k, weights k×m, linear d×m if there is one, bias m,
//	                                             and of a feature map map_weights D×m with map_frequencies D×p, map_phases D or map_edges p×(B−1)
//	<store>/<model>/<version>/vocabulary         a line ["field","name"] for each column that has a name, in column order
//	<store>/<model>/<version>/cochoices          names that are chosen together, for lists, if there are some: see CoChoices
//	<store>/<model>/<version>/trees              rules of if and else, if there are some, see Trees: a line {"version":1,"trees":…}, then for each tree
//	                                             a line {"splits":[{"field":…,"at_least":…},{"field":…,"is":…},…],"leaves":[…]}
//	<store>/<model>/<version>/tables             what is known of entities, if there are tables: see Table
//	<store>/<model>/<version>/golden.jsonl       a line {"event":{…},"outputs":[…],"prediction":…} for each event of the self-test
//	<store>/<model>/<version>/deltas/<sequence>.seg  what changed since, if deltas are published: frames one after another, from the one of that number on
//	<store>/<model>/aliases/<alias>              a Pointer: version, manifest digest, number, time and event of the move, signature, digest
//	<store>/<model>/renewals/<alias>             a Renewal: when the alias was last confirmed, until when it may be used
//	<store>/<model>/log.jsonl                    the publish log: a Record on each line, only ever appended to
//	<store>/<model>/log-<sequence>.jsonl         older files of it, put aside at 16 MiB; the newest 16 stay
//	<store>/<model>/.lock, .staging-*            writers only
//
// Versions are integers that grow by one and are never rewritten; directories appear by a rename and aliases are
// replaced by one, each after fsync. A directory without a valid manifest is no version: a synchronised copy may arrive
// in any order. "latest" is the newest published version, promoted or not; "champion" is the one to use; other names
// are free. A running publisher renews "champion" every few minutes: see Renewal, Status.Renewed.
//
// The manifest is JSON with one field of the top level on each line, in the order of Manifest, values without spaces,
// times in UTC with milliseconds; its last line is the digest of all bytes before it. So its bytes are a function of
// its fields. model.safetensors is a plain safetensors file that other languages read; this package takes only the one
// header that belongs to the shape in the manifest, so there is no offset, type or name in it to be trusted. The folder
// python has a reader in Python.
//
// Deltas are the one thing that comes into the directory of a version later. A segment is only ever appended to, and
// another one begun at 16 MiB or after 256 deltas; what a killed writer left of one is not read, and cut off by the
// next writer. They go with their version. Open takes the version as it was published; Watch also takes its deltas,
// from a DeltaSource.
//
// # Deltas
//
// A delta says what changed in a model since the delta before it, or since the version that the chain belongs to: rows
// of columns, names added, and where they changed bias, weights and map weights. Its values are absolute and of the
// type of the version's tensors, so a model after delta n depends on the version and deltas 1 to n alone, and is bit
// for bit the version that Model.Contents there would make, PayloadDigest included. Wherever deltas are, in files, over
// HTTP or in a topic, they are frames:
//
//	magic      8 bytes   RFDELTA1, or RFDELTA2 of a delta with trees, which older readers refuse
//	length     4 bytes   of the header, little-endian as all numbers are; at most 1 MiB
//	digest    32 bytes   SHA-256 of the header: in hex, after "sha256:", the digest of the delta
//	header               JSON: model, base and base_digest (the version and its manifest's digest), sequence (1, 2, …), previous (digest of the delta
//	                     before, of the first base_digest), created, event_time_watermark, events, cut (partitions that moved on), added and rows (how many), trees_bytes,
//	                     bias, weights, map_weights (whether they are there), payload_bytes, payload_sha256, fold_in_losses, checked, key_id
//	payload              at most 64 MiB: a line ["field","name"] for each name added; a line for each row of a table that has changed, as many as
//	                     table_rows says, ["table","name",[names],[lists],[numbers]] with null for none, or ["table","name"] of one that is gone; the file of the trees, if they changed; for each row, columns ascending, the column in 4 bytes, its m linear
//	                     weights if the model has some and its k coordinates; then bias m, weights k×m, map weights D×m, those that are there
//	signature 64 bytes   Ed25519 over the line "refitd delta 1" and the header, if that has a key_id
//
// Columns are those of the version; names added take the next ones in order, and are the last rows. In the contents
// they stand behind the others of their field. The payload_digest in checked is that of the contents at its sequence. A
// reader verifies header, signature and payload, in this order, before it parses the payload, and applies a delta only
// after the one that its previous names: out of order, of another chain, or with a row, name or number that cannot be,
// it is refused (ErrChain, ErrSignature, ErrDigest, ErrFormat, ErrContents) and the model stays as it was.
//
// # Promise
//
// Formats 1 to 8 stay readable by every later build. A writer may add fields to the manifest outside its schema without
// a new format number; anything that changes scores, or the last line of the manifest, gets one, and a build that does
// not know it says so (ErrFormat). OutputLimit is the one exception: it clips outputs twice as far away as those of the
// rows that a model was made of, and a build that does not know it scores all other events the same. CoChoices change
// lists alone: a build that does not know them makes lists without. Their file says which version it has.
//
// The version in testdata/v1 is read by the tests of every build and never written again. The same holds for the deltas
// in testdata/deltas1: what changes the meaning of a frame gets another magic.
//
// # History
//
//	1  first format; since then with signatures, expiry, counts and previous manifest, moves of aliases numbered and logged, and with what
//	   Model.Fold needs (fold_in), which changes no score without a history
//	2  numeric fields have a limit (NumericField.Clip); versions without one are written as format 1, which older builds read
//	3  the schema may have a feature map (Schema.FeatureMap); versions without one are written as before
//	4  the schema may have crosses (Schema.Cross); versions without one are written as before
//	5  kernels of degree 3 (Contents.Degree); versions of degree 2 are written as before. Older builds refuse it by its number
//	6  the names of lists may weigh 1/√n (Schema.MultiWeights); versions in which all weigh 1/n are written as before. Since then with a limit of outputs
//	   (output_limit)
//	7  there may be trees (Contents.Trees), whose file is in the payload digest; versions without them are written as before
//	8  there may be tables (Contents.Tables), whose file is in the payload digest; versions without them are written as before
package format
