package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/refitd/refitd/daemon/config/files"
	"github.com/refitd/refitd/daemon/config/scalar"
)

// VectorTable says where the names of a field are kept as vectors, in step with what consumers have.
type VectorTable struct {
	To           string `json:"to"`            // URL of PostgreSQL with pgvector, without a password; empty for none
	PasswordFile string `json:"password_file"` // readable by its owner only; without it the variable PGPASSWORD
	Over         string `json:"over"`          // categorical field whose names have vectors
	Class        string `json:"class"`         // of a model with several outputs
	Table        string `json:"table"`         // empty is refitd_ and the model's name, in letters that need no quotes
}

// Password reads what to sign in with, which may be renewed; empty for what the environment says.
func (x *VectorTable) Password() (string, error) {
	if x.PasswordFile == "" {
		return "", nil
	}
	return files.ReadPrivate(x.PasswordFile)
}

var (
	sqlName    = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,49}$`)
	notSQLName = regexp.MustCompile(`[^a-z0-9_]`)
	// tables that the writer has for something else
	takenTables = []string{"refitd_vectors", "refitd_changed"}
)

// TableOf returns the name of the table for a model.
func (x *VectorTable) TableOf(model string) string {
	if x.Table != "" {
		return x.Table
	}
	name := "refitd_" + notSQLName.ReplaceAllString(strings.ToLower(model), "_")
	if slices.Contains(takenTables, name) {
		name += "_"
	}
	return name[:min(len(name), 50)]
}

// publishedVectors checks the address, and reads the password.
func (v *validator) publishedVectors(m *Model, path string) {
	x := &m.Publish.Vectors
	if x.To == "" {
		if x.Over != "" || x.PasswordFile != "" || x.Class != "" || x.Table != "" {
			v.bad(path+".to", "", "the URL of a database, such as postgres://refitd@db.example.org/shop, or leave the rest out")
		}
		return
	}
	to, err := url.Parse(x.To)
	if err != nil || to.Scheme != "postgres" && to.Scheme != "postgresql" {
		v.bad(path+".to", scalar.Redacted, "a URL such as postgres://refitd@db.example.org/shop?sslmode=verify-full")
	} else if _, has := to.User.Password(); has || to.Query().Has("password") || to.Query().Has("sslpassword") {
		v.bad(path+".to", scalar.Redacted, "a URL without a password, which password_file has")
	}
	if x.Over == "" {
		v.bad(path+".over", "", "the categorical field whose names get vectors")
	}
	v.field(path+".over", x.Over, m.Schema.Categorical)
	if x.Table != "" && !sqlName.MatchString(x.Table) || slices.Contains(takenTables, x.Table) {
		v.bad(path+".table", x.Table,
			"at most 50 lower-case letters, digits and '_', but no table that refitd needs for itself, or leave it out")
	}
	if x.PasswordFile != "" {
		v.private(path+".password_file", x.PasswordFile)
	}
}
