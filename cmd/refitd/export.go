package main

import (
	"errors"

	"github.com/refitd/refitd/daemon/offline"
	"github.com/refitd/refitd/daemon/report"
)

type exportCmd struct {
	ONNX    exportONNXCmd    `cmd:"" name:"onnx"   help:"Write a version as an ONNX model that takes events by field."`
	Vectors exportVectorsCmd `cmd:"" name:"vectors" help:"Write a version as vectors of names, for inner products."`
	OCI     exportOCICmd     `cmd:"" name:"oci" help:"Write a version into a registry, as an image for Kubernetes."`
	JSONL   exportJSONLCmd   `cmd:"" name:"jsonl"  help:"Write the sample of a stopped daemon as JSON Lines."`
	LIBSVM  exportLIBSVMCmd  `cmd:"" name:"libsvm" help:"Write the sample of a stopped daemon as LIBSVM rows."`
}

type exportONNXCmd struct {
	offline.SnapshotRef

	Output  string `required:"" placeholder:"FILE" help:"File to write; it appears whole or not at all."`
	Tensors string `                               help:"Type of the tensors and outputs: f64, or f32 for runtimes and devices without doubles." enum:"f64,f32" default:"f64"`
	History *int   `            placeholder:"N"    help:"Refused: a graph takes no history."                                                                                  hidden:""`
}

// errNoHistoryInONNX says why a graph takes no history; configs/docs/consumers.md has more.
var errNoHistoryInONNX = errors.New(
	"ONNX graphs take no history: a fold-in solves a system of equations at every event, for which ONNX has no " +
		"operator; " +
		"ask with the history over HTTP, or in Go or Python (configs/docs/consumers.md)",
)

func (c *exportONNXCmd) Run(a *app) error {
	if c.History != nil {
		return &report.ExitError{Code: report.ExitUsage, Err: errNoHistoryInONNX, Key: "--history"}
	}
	return offline.ExportONNX(c.SnapshotRef, c.Output, c.Tensors == "f64", a.out)
}

type exportOCICmd struct{ offline.OCIOptions }

func (c *exportOCICmd) Run(a *app) error { return offline.ExportOCI(a.ctx, c.OCIOptions, a.out) }

type exportVectorsCmd struct{ offline.VectorsOptions }

func (c *exportVectorsCmd) Run(a *app) error { return offline.ExportVectors(c.VectorsOptions, a.out) }

// exportFlags are the flags of an export of a sample.
type exportFlags struct {
	stateFlags
	offline.ExportOptions
}

type exportJSONLCmd struct{ exportFlags }

// Run writes the rows. It prints the summary if the rows go to a file.
func (c *exportJSONLCmd) Run(a *app) error { return a.export(&c.exportFlags, offline.JSONL) }

type exportLIBSVMCmd struct{ exportFlags }

// Run writes the rows. It prints the summary if the rows go to a file.
func (c *exportLIBSVMCmd) Run(a *app) error { return a.export(&c.exportFlags, offline.LIBSVM) }

func (a *app) export(c *exportFlags, format offline.SampleFormat) error {
	if err := c.locate(); err != nil {
		return err
	}
	o := c.ExportOptions
	o.StoragePath, o.Model = c.stateFlags.StoragePath, c.stateFlags.Model
	o.Format, o.Stdout, o.Log = format, a.stdout, a.log
	if o.Output != "-" || a.out.IsJSON() || !a.terminal { // else the rows themselves are on the screen
		o.Progress = a.progress("export")
		defer o.Progress.Stop()
	}
	return offline.ExportSample(a.ctx, o, a.out)
}
