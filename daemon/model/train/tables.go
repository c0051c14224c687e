package train

import (
	"fmt"

	"github.com/refitd/refitd/daemon/cycle/encode"
)

// logTables says what a refit has of tables that says less than it seems. What has not changed since is said once.
func (t *Trainer) logTables(sample *encode.Sample) {
	said := ""
	for i, known, joined := 0, t.cycle.Tables(), sample.Tables(); i < known.NumTables(); i++ {
		table := known.Config(i)
		if columns := known.Changing(i); len(columns) > 0 {
			if said += fmt.Sprint(table.Name, columns); said != t.logged.tables {
				t.log.Warn("columns of a table change too often for their latest value", "table", table.Name,
					"columns", columns, "key", "tables[].as_of")
			}
		}
		if n := joined.Earlier(i); n > 0 {
			t.log.Info("events are older than all that a table keeps of names",
				"note", "they are joined with the oldest value", "table", table.Name, "events", n, "key", "tables[].history")
		}
	}
	t.logged.tables = said
}
