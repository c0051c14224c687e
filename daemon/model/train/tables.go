package train

import (
	"fmt"

	"github.com/refitd/refitd/daemon/cycle/encode"
)

// logTables says what a refit has of tables that says less than it seems. What has not changed since is said once.
func (t *Trainer) logTables(sample *encode.Sample) {
	if t.logged.tables == nil {
		t.logged.tables = make(map[string]string)
	}
	for i, known, joined := 0, t.cycle.Tables(), sample.Tables(); i < known.NumTables(); i++ {
		table, columns := known.Config(i), known.Changing(i)
		said := fmt.Sprint(columns)
		if len(columns) > 0 && t.logged.tables[table.Name] != said {
			t.log.Warn("columns of a table change too often for their latest value", "table", table.Name,
				"columns", columns, "key", "tables[].as_of")
		}
		t.logged.tables[table.Name] = said
		if n := joined.Earlier(i); n > 0 {
			t.log.Info("events are older than all that a table keeps of names",
				"note", "they are joined with the oldest value", "table", table.Name, "events", n, "key", "tables[].history")
		}
	}
}
