"""What cost models of measurements take from the roofline beside them."""

from twofold.cost.roofline import Roofline


class BesideRoofline:
    """A cost model whose ``roofline`` says how fast KV comes back from the tiers below the device."""

    roofline: Roofline

    @property
    def host_bytes_per_s(self) -> float:
        """Bytes a second from host memory."""
        return self.roofline.host_bytes_per_s

    @property
    def disk_bytes_per_s(self) -> float:
        """Bytes a second from disk."""
        return self.roofline.disk_bytes_per_s
