$ErrorActionPreference = 'Stop'
Add-Type -AssemblyName System.Windows.Forms, System.Drawing
if ($env:TUNCTL_ASK_KIND -eq 'choice') {
  $a = [Windows.Forms.MessageBox]::Show($env:TUNCTL_ASK_TEXT, $env:TUNCTL_ASK_TITLE, 'YesNo', 'Warning', 'Button2')
  if ($a -ne 'Yes') { exit 3 }
  exit 0
}
$f = New-Object Windows.Forms.Form -Property @{ Text = $env:TUNCTL_ASK_TITLE; AutoSize = $true; AutoSizeMode = 'GrowAndShrink'
  StartPosition = 'CenterScreen'; FormBorderStyle = 'FixedDialog'; MaximizeBox = $false; MinimizeBox = $false; TopMost = $true }
$p = New-Object Windows.Forms.FlowLayoutPanel -Property @{ FlowDirection = 'TopDown'; AutoSize = $true; Padding = 12 }
$l = New-Object Windows.Forms.Label -Property @{ Text = $env:TUNCTL_ASK_TEXT; AutoSize = $true; UseMnemonic = $false
  MaximumSize = New-Object Drawing.Size 460, 0 }
$t = New-Object Windows.Forms.TextBox -Property @{ Width = 460; Text = $env:TUNCTL_ASK_VALUE; UseSystemPasswordChar = ($env:TUNCTL_ASK_KIND -eq 'secret') }
$b = New-Object Windows.Forms.FlowLayoutPanel -Property @{ AutoSize = $true }
$ok = New-Object Windows.Forms.Button -Property @{ Text = 'OK'; DialogResult = 'OK' }
$no = New-Object Windows.Forms.Button -Property @{ Text = 'Cancel'; DialogResult = 'Cancel' }
$b.Controls.AddRange(@($ok, $no)); $p.Controls.AddRange(@($l, $t, $b)); $f.Controls.Add($p)
$f.AcceptButton = $ok; $f.CancelButton = $no; $f.ActiveControl = $t
if ($f.ShowDialog() -ne 'OK') { exit 3 }
[Console]::Out.Write([Convert]::ToBase64String([Text.Encoding]::UTF8.GetBytes($t.Text)))
