$ErrorActionPreference = 'Stop'
[void][Windows.UI.Notifications.ToastNotificationManager, Windows.UI.Notifications, ContentType = WindowsRuntime]
$x = [Windows.UI.Notifications.ToastNotificationManager]::GetTemplateContent('ToastText02')
$lines = $x.GetElementsByTagName('text')
$lines.Item(0).InnerText = $env:TUNCTL_NOTE_TITLE
$lines.Item(1).InnerText = $env:TUNCTL_NOTE_BODY
$t = New-Object Windows.UI.Notifications.ToastNotification $x
if ($env:TUNCTL_NOTE_TAG) { $t.Tag = $env:TUNCTL_NOTE_TAG; $t.Group = 'tunctl' }
[Windows.UI.Notifications.ToastNotificationManager]::CreateToastNotifier($env:TUNCTL_NOTE_APP).Show($t)
