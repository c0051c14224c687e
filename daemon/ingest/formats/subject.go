package formats

import (
	"context"

	"github.com/refitd/refitd/consumer/event"
	"github.com/refitd/refitd/daemon/config"
	"github.com/refitd/refitd/daemon/report"
)

// CheckSubject asks a registry for the newest schema of a subject, and says for which fields of a model it has nothing,
// or another type.
func CheckSubject(ctx context.Context, k *config.Kafka, m *config.Model, subject string) (report.SubjectCheck, error) {
	out := report.SubjectCheck{Model: m.Name, Subject: subject, Lost: []string{}, Unfit: []string{}}
	client, err := NewRegistry(k)
	if err != nil {
		return out, err
	}
	defer client.Close()
	w, version, err := client.Newest(ctx, subject)
	if err != nil {
		return out, err
	}
	out.Version, out.Format = version, w.Format
	d := newMapped(m, m.Schema.Event(),
		&event.Reading{Format: w.Format, Compilers: compilers, Outliners: outliners, Fixed: m.Input.Writer()}, nil)
	lost, unfit, err := d.Lacks(w)
	out.Lost, out.Unfit = append(out.Lost, lost...), append(out.Unfit, unfit...)
	return out, err
}
