package tunnel

// keychainWarning explains UseKeychain, by which Apple's ssh takes passphrases from
// the system's keychain. Those are kept for Apple's own programs: what another can
// have is the unlocked key, from the agent.
const keychainWarning = "UseKeychain: only Apple's ssh can read those passphrases; " +
	"run `ssh-add --apple-use-keychain KEYFILE` once, later `ssh-add --apple-load-keychain`, and the key comes from the ssh-agent"

// explainKeychain warns where UseKeychain would matter. Other systems' ssh does not
// know it, and `ssh -G` need not print it, so the files are looked at too.
func explainKeychain(goos string, s *Settings, said directives, config string) {
	if goos != "darwin" {
		return
	}
	wish := said.first("usekeychain")
	if wish == "" {
		written, _, err := readDirectives(s.Alias, config)
		if err != nil {
			return // ssh -G could read them, and says no
		}
		wish = written.first("usekeychain")
	}
	if yes(wish) {
		s.Warnings = append(s.Warnings, keychainWarning)
	}
}
