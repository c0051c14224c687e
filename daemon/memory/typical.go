package memory

import (
	"slices"

	"github.com/refitd/refitd/daemon/config"
)

// What events and requests usually are, where a configuration has limits for the largest. Chosen by hand. Two million
// ratings in a sample of 50,000 took 504 MiB at most, and typically is 569; 200,000 in 20,000 took 176, and it is 396.
const (
	usualRow         = 64      // bytes of a row of a refit
	usualName        = 24      // bytes of a name
	usualList        = 8       // names of a list
	rowsOfName       = 10      // rows of the sample for each name in it
	usualInflight    = 4 << 20 // bytes of the requests at a time
	usualConnections = 16
)

// usually returns a configuration whose limits are what is usual, as far as they are above that: its bound is what a
// daemon typically takes.
func usually(c *config.Config) *config.Config {
	usual := *c
	usual.Web.MaxInflightBytes = min(c.Web.MaxInflightBytes, usualInflight)
	usual.Web.MaxConnections = min(c.Web.MaxConnections, usualConnections)
	usual.Models = slices.Clone(c.Models)
	for i := range usual.Models {
		m := &usual.Models[i]
		names := max(1, m.Sample.Size/rowsOfName)
		m.Input.MaxIDBytes = min(m.Input.MaxIDBytes, usualName)
		m.Input.MaxListNames = min(m.Input.MaxListNames, usualList)
		m.Sample.MaxBytes = min(m.Sample.MaxBytes, config.Size(m.Sample.Size*usualRow))
		m.Train.MaxFeatures = min(m.Train.MaxFeatures, names)
		m.Train.FoldIn.MaxRows = min(m.Train.FoldIn.MaxRows, names)
	}
	return &usual
}
