package tunnel

import (
	"encoding/pem"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type slogLogger = slog.Logger

func pemEncode(b *pem.Block) []byte { return pem.EncodeToMemory(b) }
