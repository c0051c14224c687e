package fit

import "github.com/refitd/refitd/daemon/config"

// AlgorithmFlags say what refits find their model by, in place of the configuration. What is not given stays as it is
// there.
type AlgorithmFlags struct {
	Algorithm string       `enum:",{algorithms}"   default:"" placeholder:"ALGORITHM" help:"What finds the model: {algorithmsText}."`
	Degree    int          `                                  placeholder:"2"         help:"Most features in a product: 2 or 3."`
	Loss      string       `enum:",auto,{losses}"  default:"" placeholder:"LOSS"      help:"Training loss: {lossesText}; by default of task and algorithm."`
	TopK      *config.TopK `                                  placeholder:"auto"      help:"Margins that losses of the best k look at; auto is 5, or all but one class of fewer."          name:"top-k"`
	Cost      string       `                                  placeholder:"FILE"      help:"CSV file for --loss structured: a row for each true class, what it costs to take it for each."`
	Moreau    *float64     `                                  placeholder:"0"         help:"Smoothing of a loss of margins, 0 for none."`
	Features  string       `enum:",raw,basis"      default:"" placeholder:"raw"       help:"What frank_wolfe_svm is learned over: raw or basis, of Algorithm 1."`
}

// Given reports whether any of the flags was.
func (f *AlgorithmFlags) Given() bool { return *f != AlgorithmFlags{} }

// Apply sets what was given in a model. Its settings are not resolved then.
func (f *AlgorithmFlags) Apply(m *config.Model) {
	m.Choose(f.Algorithm, f.Degree)
	t := &m.Train
	if f.Loss != "" {
		t.Loss = f.Loss
	}
	if f.TopK != nil {
		t.TopK = *f.TopK
	}
	if f.Cost != "" {
		t.Cost = f.Cost
	}
	if f.Features != "" {
		t.Features = f.Features
	}
	if f.Moreau != nil {
		t.Moreau = *f.Moreau
	}
}
