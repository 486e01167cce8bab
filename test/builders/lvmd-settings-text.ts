// A configuration of lvmd with every key that TopoLVM's has, as people write it.

export const LVMD_SETTINGS_TEXT = `socket-name: /run/topolvm/lvmd.sock
lvm-command-prefix: [/usr/bin/nsenter, -t, "1", /sbin/lvm]
device-classes:
  - name: ssd
    volume-group: myvg1
    default: true
    spare-gb: 20
    stripe: 2
    stripe-size: "64"
    lvcreate-options: ["--mirrors=1"]
  - name: ssd-thin
    volume-group: myvg1
    type: thin
    thin-pool: { name: pool0, overprovision-ratio: 5.5 }
lvcreate-option-classes:
  - name: raid
    options: [--type=raid1]
`;
