"""The table of benches, and of the modules that are linted as tops."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Bench:
    """One build of one module, with the Python module that tests it.

    `parameters` become the module's parameters and, as CV_NAME, environment variables of the
    tests; `environment` goes to the tests only. `folders` are folders of rtl/ ("tb" is tb/).
    """

    name: str
    top: str
    module: str
    folders: tuple[str, ...] = ("common",)
    parameters: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)


BENCHES = [
    Bench("fifo_4", "cv_fifo", "test_fifo", parameters={"Depth": 4}),
    Bench("fifo_1", "cv_fifo", "test_fifo", parameters={"Depth": 1}),
    Bench("fifo_5", "cv_fifo", "test_fifo", parameters={"Depth": 5}),
    Bench("fifo_ram_16", "cv_fifo_ram", "test_fifo", parameters={"Depth": 16}),
    Bench("fifo_async_8", "cv_fifo_async", "test_fifo_async", parameters={"Depth": 8}),
    Bench("arbiter_5", "cv_arbiter", "test_arbiter", parameters={"N": 5, "LowEvery": 3}),
    Bench("packer", "cv_packer", "test_packer"),
    Bench("packet_fifo", "cv_packet_fifo", "test_packet_fifo",
          parameters={"Depth": 8, "Packets": 3}),
    Bench("packet_fifo_ram", "cv_packet_fifo", "test_packet_fifo",
          parameters={"Depth": 40, "Packets": 4}),
    Bench("switch", "cv_switch", "test_switch"),
    Bench("sha1_40", "cv_sha1", "test_sha", ("common", "crypto"), {"RoundsPerCycle": 2},
          {"algorithm": "sha1"}),
    Bench("sha1_20", "cv_sha1", "test_sha", ("common", "crypto"), {"RoundsPerCycle": 4},
          {"algorithm": "sha1"}),
    Bench("sha256_64", "cv_sha256", "test_sha", ("common", "crypto"), {"RoundsPerCycle": 1},
          {"algorithm": "sha256"}),
    Bench("sha256_32", "cv_sha256", "test_sha", ("common", "crypto"), {"RoundsPerCycle": 2},
          {"algorithm": "sha256"}),
    Bench("hmac_sha1_40", "cv_hmac", "test_hmac", ("common", "crypto"), {"RoundsPerCycle": 2},
          {"algorithm": "sha1"}),
    Bench("hmac_sha1_20", "cv_hmac", "test_hmac", ("common", "crypto"), {"RoundsPerCycle": 4},
          {"algorithm": "sha1"}),
    Bench("hmac_sha256_32", "cv_hmac", "test_hmac", ("common", "crypto"),
          {"RoundsPerCycle": 2, "Sha256": "1'b1"}, {"algorithm": "sha256"}),
    Bench("aes_pipe", "cv_aes_pipe", "test_aes_pipe", ("common", "crypto")),
    Bench("ghash", "cv_ghash", "test_ghash", ("common", "crypto")),
    Bench("aes_gcm", "cv_aes_gcm", "test_aes_gcm", ("common", "crypto")),
    Bench("des_cbc", "cv_des_cbc", "test_des_cbc", ("common", "crypto")),
    Bench("des_ecb", "cv_des_ecb", "test_des_ecb", ("common", "crypto")),
    Bench("aes_cbc", "cv_aes_cbc", "test_aes_cbc", ("common", "crypto")),
    Bench("esp_trailer", "cv_esp_trailer", "test_esp_trailer", ("common", "esp")),
    Bench("replay_64", "cv_replay", "test_replay", ("common", "esp"), {"Window": 64}),
    Bench("replay_128", "cv_replay", "test_replay", ("common", "esp"), {"Window": 128}),
]

# (top module, folders): each is linted with its default parameters.
LINT = [
    ("cv_fifo", ("common",)),
    ("cv_fifo_ram", ("common",)),
    ("cv_fifo_async", ("common",)),
    ("cv_sync", ("common",)),
    ("cv_arbiter", ("common",)),
    ("cv_packer", ("common",)),
    ("cv_packet_fifo", ("common",)),
    ("cv_switch", ("common",)),
    ("cv_sha1", ("common", "crypto")),
    ("cv_sha256", ("common", "crypto")),
    ("cv_hmac", ("common", "crypto")),
    ("cv_aes_cbc", ("common", "crypto")),
    ("cv_des_pipe", ("common", "crypto")),
    ("cv_des_cbc", ("common", "crypto")),
    ("cv_des_ecb", ("common", "crypto")),
    ("cv_aes_pipe", ("common", "crypto")),
    ("cv_ghash", ("common", "crypto")),
    ("cv_aes_gcm", ("common", "crypto")),
    ("cv_esp_trailer", ("common", "esp")),
    ("cv_replay", ("common", "esp")),
]
