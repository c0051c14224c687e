package daemon_test

import (
	"testing"

	"github.com/refitd/refitd/daemon/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }
