package desktop

import (
	"encoding/base64"
	"encoding/binary"
	"unicode/utf16"
)

// powershell is the command line that runs a script in the PowerShell every Windows
// has. The script is encoded, since Windows has no one way to quote a command line.
func powershell(script string) []string {
	units := utf16.Encode([]rune(script))
	text := make([]byte, 0, 2*len(units))
	for _, u := range units {
		text = binary.LittleEndian.AppendUint16(text, u)
	}
	return []string{
		"powershell.exe", "-NoProfile", "-NonInteractive", "-STA", "-ExecutionPolicy", "Bypass",
		"-EncodedCommand", base64.StdEncoding.EncodeToString(text),
	}
}
