"""Sessions behind which the relay network is: asked for every track, whoever else publishes it.

::

    a track has a receiver -------------> our SUBSCRIBE, local publishers or not: others may
      of another session                  publish the same track elsewhere
    the network knows nobody -----------> receivers wait for as long as they may, as if nobody had
                                          announced the track
    it hears of somebody later ---------> asked again, if somebody still receives or waits
    only the network itself receives ---> after ``linger`` UNSUBSCRIBE: it needs nothing from itself
"""

from __future__ import annotations

from laps_sdk.edge.context import Context
from laps_sdk.edge.records import Client, Track
from laps_wire.names import FullTrackName

__all__ = ["Upstreams"]


class Upstreams:
    """The upstream sessions, most often one or none."""

    __slots__ = ("_context", "clients")

    def __init__(self, context: Context) -> None:
        self._context = context
        self.clients: dict[int, Client] = {}

    def add(self, client: Client) -> None:
        """A session came; its SETUP may still be to come."""
        if client.info.upstream:
            self.clients[client.id] = client

    def ready(self, now: float, client: Client) -> None:
        """It can be asked: for all that is received already."""
        if client.id in self.clients:
            for track in list(self._context.tracks.by_name.values()):
                self.ensure(now, track)

    def remove(self, client: Client) -> None:
        """It is gone."""
        self.clients.pop(client.id, None)

    def ensure(self, now: float, track: Track) -> None:
        """Ask for a track that somebody else receives, unless that was done."""
        for client in self.clients.values():
            self._context.sources.ask(now, track, client)

    def wanted(self, session: int, name: FullTrackName) -> bool:
        """Whether others than a session receive or wait for a track.

        If not, what the session said about it is forgotten: it is asked anew when somebody comes.
        """
        context = self._context
        client, track = context.clients.get(session), context.tracks.by_name.get(name)
        if client is None or track is None:
            return False
        if any(track.receivers_for(client)):
            return True
        track.refused.discard(session)
        return False

    def ask_again(self, now: float, session: int, name: FullTrackName) -> None:
        """A session that refused a track would not do so now."""
        context = self._context
        client, track = context.clients.get(session), context.tracks.by_name.get(name)
        if client is not None and track is not None and track.receivers:
            track.refused.discard(session)
            context.sources.ask(now, track, client)
