package main

import (
	"github.com/refitd/refitd/daemon/offline"
)

// exportCmd groups the verbs that write other formats.
type exportCmd struct {
	ONNX   exportONNXCmd   `cmd:"" name:"onnx" help:"Write a published version as an ONNX model that takes events by field."`
	JSONL  exportJSONLCmd  `cmd:"" name:"jsonl" help:"Write the sample of a stopped daemon as JSON Lines, with weights."`
	LIBSVM exportLIBSVMCmd `cmd:"" name:"libsvm" help:"Write the sample of a stopped daemon as LIBSVM rows, with weights."`
}

// exportONNXCmd is export onnx.
type exportONNXCmd struct {
	snapshotFlags

	Output  string `required:"" placeholder:"FILE" help:"File to write; it appears whole or not at all."`
	Tensors string `enum:"f64,f32" default:"f64" help:"Type of the tensors and outputs: f64, or f32 for runtimes and devices without doubles."`
}

// Run writes the file and prints the summary.
func (c *exportONNXCmd) Run(a *app) error {
	return offline.ExportONNX(c.ref(), c.Output, c.Tensors == "f64", a.out)
}

// directoryFlags name the sample of a model in a state directory.
type directoryFlags struct {
	StoragePath string `name:"storage.path" required:"" placeholder:"DIR" help:"State directory (storage.path) of a daemon that is stopped."`
	Model       string `required:"" placeholder:"NAME" help:"Model."`
	Output      string `default:"-" placeholder:"FILE" help:"File to write; - is standard output, which then has no summary."`
}

// exportJSONLCmd is export jsonl.
type exportJSONLCmd struct{ directoryFlags }

// Run writes the rows and, beside a file, prints the summary.
func (c *exportJSONLCmd) Run(a *app) error { return c.export(a, offline.JSONL) }

// exportLIBSVMCmd is export libsvm.
type exportLIBSVMCmd struct{ directoryFlags }

// Run writes the rows and, beside a file, prints the summary.
func (c *exportLIBSVMCmd) Run(a *app) error { return c.export(a, offline.LIBSVM) }

func (f *directoryFlags) export(a *app, format offline.SampleFormat) error {
	return offline.ExportSample(a.ctx, offline.ExportOptions{StoragePath: f.StoragePath, Model: f.Model, Output: f.Output, Format: format,
		Stdout: a.stdout, Log: a.log}, a.out)
}
